/*
 * Licensed under the Apache License, Version 2.0 (the "License");
 * you may not use this file except in compliance with the License.
 * You may obtain a copy of the License at
 *
 *     http://www.apache.org/licenses/LICENSE-2.0
 *
 * Unless required by applicable law or agreed to in writing, software
 * distributed under the License is distributed on an "AS IS" BASIS,
 * WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
 * See the License for the specific language governing permissions and
 * limitations under the License.
 */

package io.github.deltarlc.jni

import java.nio.ByteBuffer
import java.nio.ByteOrder.LITTLE_ENDIAN
import java.nio.file.{Files, Path, Paths}
import java.util.SplittableRandom

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.{Success, Try}

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray
import org.apache.spark.sql.delta.rlc.harness.ChildJvm

/**
 * The seeds of the fuzz targets, and mutations of them, through JNI. What is refused names a byte of
 * the input; what is not is what Delta's own decoder makes of it.
 */
class HostileBytesSuite extends AnyFunSuite with BeforeAndAfterAll {

  override def beforeAll(): Unit = NativeLibrary.ensureAvailable()

  private def seeds(target: String): Seq[Array[Byte]] = known.getOrElseUpdate(target, {
    val dir = Paths.get(System.getProperty("delta.rlc.test.root"),
      "rust", "deletion-vectors", "fuzz", "seeds", target)
    val files = Files.list(dir)
    try files.iterator.asScala.toVector.sortBy(_.toString).map(Files.readAllBytes(_: Path))
    finally files.close()
  })
  private val known = mutable.Map.empty[String, Seq[Array[Byte]]]

  /** Seeds, and `count` mutations of them, the same in every run. */
  private def corpus(target: String, count: Int): Iterator[Array[Byte]] = {
    val all = seeds(target)
    val random = new SplittableRandom(27)
    def mutated: Array[Byte] = {
      val bytes = all(random.nextInt(all.size)).clone()
      if (bytes.isEmpty) bytes
      else random.nextInt(5) match {
        case 0 => bytes.take(random.nextInt(bytes.length))
        case 1 =>
          val other = all(random.nextInt(all.size))
          bytes.take(random.nextInt(bytes.length)) ++ other.drop(random.nextInt(other.length + 1))
        case _ =>
          for (_ <- 0 to random.nextInt(3)) {
            val at = random.nextInt(if (random.nextBoolean()) bytes.length else math.min(bytes.length, 40))
            bytes(at) = if (random.nextBoolean()) (bytes(at) ^ (1 << random.nextInt(8))).toByte
              else random.nextInt(256).toByte
          }
          bytes
      }
    }
    all.iterator ++ Iterator.continually(mutated).take(count)
  }

  private def resolve[T](files: Seq[(Bitmaps.Dv, Bitmaps.Dv, Bitmaps.Dv, Long)])(
      check: MergeResponse => T): T = {
    val request = Bitmaps.rawRequest(files)
    try check(NativeBridge.resolve(request)) finally request.close()
  }

  test("[trap 31] [trap 34] [trap 36] any bytes as a deletion vector: refused at a byte, or as Delta reads them") {
    val other = Bitmaps.dv(Some(Seq(1L << 20)))
    var refused = Map.empty[DvError, Int].withDefaultValue(0)
    var accepted = 0
    var compared = 0
    corpus("decode", 4000).zipWithIndex.filter(_._1.nonEmpty).foreach { case (bytes, index) =>
      // What the error about a wrong cardinality says; Delta's decoder would trust every count.
      val cardinality = resolve(Seq((None, Some((bytes, 2L)), other, -1L))) { r =>
        if (r.verdict(0) == Verdict.MALFORMED && r.error(0) == DvError.DV_CARDINALITY) r.got(0)
        else 2L
      }
      // In each role; the second time with a row limit, the third with a cardinality that is wrong.
      val bad = Some((bytes, cardinality))
      val files = Seq[(Bitmaps.Dv, Bitmaps.Dv, Bitmaps.Dv, Long)](
        (None, bad, other, -1L), (None, other, bad, 1L << 21), (bad, bad, bad, -1L),
        (None, other, Some((bytes, cardinality + 1)), -1L))
      resolve(files) { r =>
        files.indices.foreach { i =>
          if (r.verdict(i) == Verdict.MALFORMED) {
            refused += r.error(i) -> (refused(r.error(i)) + 1)
            assert(r.role(i) != DvRole.NONE && r.error(i) != DvError.NONE)
            assert(r.detail(i) >= 0 && r.detail(i) <= bytes.length, r.describe(i))
            assert(r.describe(i).contains(s" at byte ${r.detail(i)}: "))
          }
        }
        assert(r.verdict(3) != Verdict.MERGED, "a wrong cardinality passed")
        if (r.verdict(1) == Verdict.MERGED) {
          accepted += 1
          val union = RoaringBitmapArray.readFrom(r.bytes(1))
          assert(union.cardinality == r.cardinality(1) && union.contains(1L << 20))
          assert(r.cardinality(1) == cardinality + 1)
          // Of the seeds alone: for an empty bucket with a high key Delta's decoder makes room for all
          // below it, and a cookie for runs over containers without any is right but not for Delta.
          if (index < seeds("decode").size) {
            Try(RoaringBitmapArray.readFrom(bytes)).foreach { read =>
              compared += 1
              read.add(1L << 20)
              // Not `==`, to which an empty bucket at the end is a difference.
              assert(union.toArray.sameElements(read.toArray))
            }
          }
        }
      }
    }
    assert(compared > 5)
    assert(accepted > 30, "nothing but rubbish proves little")
    // All of them are met by the Rust tests, which make more of the same seeds.
    assert(refused.size >= 10, s"reasons that were met: ${refused.keySet}")
  }

  test("[trap 31] what is accepted is neither all that Delta's decoder takes, nor less") {
    val ascending = Seq[Short](3, 9)
    /** A bucket of one container, an array of two, as with the cookie for bitmaps without runs. */
    def plain(key: Int, values: Seq[Short], offset: Int = 16): Array[Byte] =
      little(24)(_.putInt(key).putInt(12346).putInt(1).putShort(0).putShort(1).putInt(offset)
        .putShort(values(0)).putShort(values(1)))
    /** The same with the cookie for bitmaps with runs, of which it has none, and so no offset. */
    val runless = little(17)(_.putInt(0).putInt(12347).put(0.toByte).putShort(0).putShort(1)
      .putShort(ascending(0)).putShort(ascending(1)))
    def empty(key: Int): Array[Byte] = little(12)(_.putInt(key).putInt(12346).putInt(0))
    def bitmap(buckets: Array[Byte]*): Array[Byte] =
      little(12)(_.putInt(1681511377).putLong(buckets.size.toLong)) ++ buckets.flatten

    val rows = Seq(3L, 9L, (1L << 32) + 3, (1L << 32) + 9)
    def delta(bytes: Array[Byte]): Try[Seq[Long]] =
      Try(RoaringBitmapArray.readFrom(bytes).toArray.toSeq)
    def ours(bytes: Array[Byte]): Either[DvError, Seq[Long]] =
      resolve(Seq((None, Some((bytes, rows.size.toLong)), Bitmaps.dv(Some(Seq(20L))), -1L))) { r =>
        if (r.verdict(0) == Verdict.MALFORMED) Left(r.error(0))
        else Right(delta(r.bytes(0)).get.filterNot(_ == 20L))
      }
    val good = bitmap(plain(0, ascending), plain(1, ascending))
    assert(delta(good) == Success(rows) && ours(good) == Right(rows))

    // Delta's decoder takes these.
    for ((bytes, error) <- Seq(
        (good :+ 0.toByte) -> DvError.DV_TRAILING_BYTES,
        bitmap(plain(0, ascending), plain(1, ascending.reverse)) -> DvError.DV_VALUE_ORDER,
        bitmap(plain(0, ascending, offset = 17), plain(1, ascending)) -> DvError.DV_OFFSET_HEADER)) {
      assert(delta(bytes).isSuccess && ours(bytes) == Left(error))
    }
    val noRuns = little(15)(_.putInt(0).putInt(12347).put(1.toByte).putShort(0).putShort(1)
      .putShort(0))
    assert(ours(bitmap(noRuns, plain(1, ascending))) == Left(DvError.DV_CONTAINER_SIZE))
    // It does not take this, or takes it for something else.
    val odd = bitmap(runless, plain(1, ascending))
    assert(delta(odd) != Success(rows) && ours(odd) == Right(rows))
    // And for this it would allocate two billion buckets.
    assert(ours(good.clone().patch(4, Array[Byte](3), 1) ++ empty(Int.MaxValue - 1)) == Right(rows))
  }

  private def little(size: Int)(put: ByteBuffer => Any): Array[Byte] = {
    val buffer = ByteBuffer.allocate(size).order(LITTLE_ENDIAN)
    put(buffer): Unit
    buffer.array
  }

  test("[trap 32] containers of 4095, 4096 and 4097 rows of every kind, to Rust and back, in every pairing") {
    // Scattered they are arrays up to 4096 and bitsets above, in one stretch they are runs.
    val sets = for (n <- Seq(4095, 4096, 4097); step <- Seq(1, 4, 15)) yield (0 until n).map(_ * step.toLong)
    for ((own, i) <- sets.zipWithIndex; (win, j) <- sets.zipWithIndex) {
      // In one container, where they share no row; and in two.
      val shifted = win.map(_ + 2).filterNot(own.toSet)
      for (other <- Seq(shifted, win.map(_ + (3L << 16))) if other.nonEmpty) {
        val first = Rows(None, Some(own), Some(other))
        val request = Bitmaps.request(Seq(first))
        val union = Bitmaps.of(own ++ other)
        val bytes =
          try {
            val r = NativeBridge.resolve(request)
            assert(r.verdict(0) == Verdict.MERGED, s"$i and $j: ${r.describe(0)}")
            assert(RoaringBitmapArray.readFrom(r.bytes(0)) == union, s"$i and $j")
            r.bytes(0)
          } finally request.close()
        // What Rust wrote is its own next base, and the same as what Java makes of it.
        val again = Some((bytes, union.cardinality))
        val plus = union.copy()
        plus.add(1L << 40)
        val next = Bitmaps.rawRequest(Seq((again, Some((Bitmaps.bytes(plus), plus.cardinality)), again, -1L)))
        try {
          val r = NativeBridge.resolve(next)
          assert(r.verdict(0) == Verdict.MERGED, s"$i and $j: ${r.describe(0)}")
          assert(RoaringBitmapArray.readFrom(r.bytes(0)) == plus)
        } finally next.close()
      }
    }
  }

  test("any numbers as a request: refused with a code, or answered") {
    var refused = 0
    var answered = 0
    corpus("wire", 4000).foreach { bytes =>
      val in = ByteBuffer.wrap(bytes).order(LITTLE_ENDIAN)
      val declared = if (bytes.length < 12) 0 else in.getInt(8)
      val entries = math.max(0, (bytes.length - 32) / 80)
      val files = if (declared < 0) entries else math.min(declared, entries)
      val request = new MergeRequest(files)
      val array = request.add(bytes).toLong
      val table = request.table
      (0 until files).foreach { f =>
        val numbers = (0 until 10).map(i => in.getLong(32 + 80 * f + 8 * i))
        val entry = numbers.take(9).grouped(3).flatMap(array +: _).toSeq :+ numbers(9)
        entry.copyToArray(table, 13 * f) // behind the Java side's back
      }
      try {
        val r = NativeBridge.resolve(request)
        answered += 1
        (0 until files).foreach(i => assert(r.describe(i).nonEmpty))
      } catch {
        case e: NativeException =>
          refused += 1
          assert(e.code == "REQUEST_MALFORMED" && e.getMessage.contains("file "), e)
      } finally request.close()
    }
    assert(refused > 300 && answered > 300, s"$refused refused, $answered answered")
  }

  test("an interrupted thread gets its answer, and stays interrupted") {
    val request = Bitmaps.request(Seq(Rows(None, Some(Seq(1L)), Some(Seq(2L)))))
    Thread.currentThread().interrupt()
    try assert(NativeBridge.resolve(request).verdict(0) == Verdict.MERGED)
    finally {
      request.close()
      assert(Thread.interrupted())
    }
  }

  test("a million calls of every kind leave the process as large as it was") {
    val probe = new ChildJvm(LeakProbe.getClass.getName.stripSuffix("$"),
      options = Seq("-Xms96m", "-Xmx96m", "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC",
        "-XX:MaxMetaspaceSize=128m", "-XX:ReservedCodeCacheSize=32m"))
    assert(probe.end() == 0, probe.output.mkString("\n"))
    val Seq(before, after) = probe.output.collect { case s"RSS $kb" => kb.toLong }: @unchecked
    info(s"$before KB after 200,000 calls, $after KB after 1,200,000")
    // 10 bytes lost in each call would be as much.
    assert(after - before < 10000, s"$before KB grew to $after KB")
  }
}

/** A million calls in a JVM of its own, whose heap has its full size from the start. */
object LeakProbe {
  def main(args: Array[String]): Unit = {
    val good = Bitmaps.bytes(Seq(1L, 5L, 1L << 33))
    val other = Bitmaps.bytes(Seq(2L))
    val garbage = Array.fill[Byte](40)(7)
    val long = Bitmaps.bytes((1000L until 10000L by 3)) // is not gathered
    val large = long ++ new Array[Byte](17 << 20) // is copied instead of held

    def call(winner: Array[Byte], length: Int, cardinality: Long): Unit = {
      val request = new MergeRequest(2)
      try {
        val own = request.add(good)
        request.setFile(0, 0, 0, 0, 0L, own, 0, good.length, 3L,
          request.add(winner), 0, length, cardinality, -1L)
        request.setFile(1, 0, 0, 0, 0L, own, 0, good.length, 3L, own, 0, good.length, 3L, -1L)
        val r = NativeBridge.resolve(request)
        if (r.verdict(0) == Verdict.MERGED) r.bytes(0)
        if (r.verdict(1) != Verdict.OVERLAP) throw new AssertionError(r.describe(1))
        NativeBridge.overlapCount(request, 1)
      } catch {
        case _: NativeException => // what some of the calls are for
      } finally request.close()
    }

    def calls(count: Int): Unit = (0 until count).foreach { i =>
      if (i % 5000 == 0) call(large, long.length, 3000L)
      else i % 4 match {
        case 0 => call(garbage, garbage.length, 1L)
        case 1 if i % 16 == 1 => call(other, other.length + 1, 1L) // an exception
        case _ => call(other, other.length, 1L)
      }
    }

    calls(200000)
    println(s"RSS $rss")
    calls(1000000)
    println(s"RSS $rss")
  }

  private def rss: Long = {
    System.gc()
    val status = Files.readAllLines(Paths.get("/proc/self/status")).asScala
    status.collectFirst { case s"VmRSS:$kb kB" => kb.trim.toLong }.get
  }
}
