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

import java.util.SplittableRandom
import java.util.concurrent.{Callable, Executors, TimeUnit}

import scala.jdk.CollectionConverters._

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray

/** The native layer through its public classes; the suites run under -Xcheck:jni. */
class NativeBridgeSuite extends AnyFunSuite with BeforeAndAfterAll {

  override def beforeAll(): Unit = NativeLibrary.ensureAvailable()

  private def resolve[T](files: Rows*)(check: MergeResponse => T): T = {
    val request = Bitmaps.request(files)
    try check(NativeBridge.resolve(request)) finally request.close()
  }

  private def rowsOf(response: MergeResponse, i: Int): Seq[Long] =
    RoaringBitmapArray.readFrom(response.bytes(i)).toArray.toSeq

  test("disjoint deletes are merged, with the union's bytes and cardinality") {
    resolve(Rows(Some(Seq(1L, 5L)), Some(Seq(1L, 5L, 9L)), Some(Seq(1L, 2L, 5L)), 100L)) { r =>
      assert(r.fileCount == 1)
      assert(r.verdict(0) == Verdict.MERGED)
      assert(r.role(0) == DvRole.NONE)
      assert(r.error(0) == DvError.NONE)
      assert(r.cardinality(0) == 4L)
      assert(rowsOf(r, 0) == Seq(1L, 2L, 5L, 9L))
      assert(r.length(0) == r.bytes(0).length)
      val view = new Array[Byte](r.length(0))
      r.buffer(0).get(view)
      assert(view.sameElements(r.bytes(0)))
      assert(r.describe(0) == "merged, 4 rows deleted in all")
    }
  }

  test("a file that the loser did not touch needs nothing when the winner only took rows away") {
    resolve(Rows(Some(Seq(1L)), None, Some(Seq(1L, 2L)))) { r =>
      assert(r.verdict(0) == Verdict.UNTOUCHED_OK)
      assert(r.length(0) == 0 && r.bytes(0).isEmpty)
    }
  }

  test("a union that covers the file has no bitmap") {
    resolve(
        Rows(None, Some(0L until 50L), Some(50L until 100L), 100L),
        Rows(None, Some(0L until 50L), Some(50L until 100L), 101L),
        Rows(None, Some(0L until 50L), Some(50L until 100L))) { r =>
      assert((0 to 2).map(r.verdict) == Seq(Verdict.COVERS_FILE, Verdict.MERGED, Verdict.MERGED))
      assert(r.cardinality(0) == 100L)
      assert(r.length(0) == 0)
      assert(r.describe(0).contains("all 100 rows"))
    }
  }

  test("an overlap names the first common row") {
    resolve(Rows(Some(Seq(7L)), Some(Seq(7L, 70L, 700L)), Some(Seq(7L, 70L, 700L, 701L)))) { r =>
      assert(r.verdict(0) == Verdict.OVERLAP)
      assert(r.detail(0) == 70L)
      assert(r.length(0) == 0)
      assert(r.describe(0) == "both sides delete row 70")
    }
  }

  test("the number of common rows is counted on request") {
    val request = Bitmaps.request(Seq(
      Rows(None, Some(Seq(1L)), Some(Seq(2L))),
      Rows(Some(Seq(7L)), Some(Seq(7L, 70L, 700L, 1L << 33)), Some(Seq(7L, 70L, 700L, 701L, 1L << 33)))))
    try {
      assert(NativeBridge.overlapCount(request, 0) == 0L)
      assert(NativeBridge.overlapCount(request, 1) == 3L)
      assertThrows[IndexOutOfBoundsException](NativeBridge.overlapCount(request, 2))
      assertThrows[IndexOutOfBoundsException](NativeBridge.overlapCount(request, -1))
    } finally request.close()
  }

  test("a winner without a row of the base is refused, whether or not the loser touched the file") {
    resolve(
        Rows(Some(Seq(3L, 4L)), Some(Seq(3L, 4L, 5L)), Some(Seq(3L, 9L))),
        Rows(Some(Seq(3L, 4L)), None, Some(Seq(3L, 9L))),
        Rows(Some(Seq(3L, 4L)), None, None)) { r =>
      assert((0 to 2).map(r.verdict).forall(_ == Verdict.NOT_AN_EXTENSION))
      assert(Seq(r.detail(0), r.detail(1), r.detail(2)) == Seq(4L, 4L, 3L))
      assert(r.describe(0).contains("row 4 "))
    }
  }

  test("a loser without a row of its base is refused") {
    resolve(Rows(Some(Seq(3L, 4L)), Some(Seq(4L, 5L)), Some(Seq(3L, 4L, 9L)))) { r =>
      assert(r.verdict(0) == Verdict.BASE_NOT_IN_CURRENT)
      assert(r.detail(0) == 3L)
    }
  }

  test("a loser that deleted nothing has nothing to merge") {
    resolve(Rows(Some(Seq(3L, 4L)), Some(Seq(3L, 4L)), Some(Seq(3L, 4L, 9L)))) { r =>
      assert(r.verdict(0) == Verdict.NOTHING_NEW)
    }
  }

  test("a cardinality other than the declared one is refused, with both numbers") {
    val dv = Some((Bitmaps.bytes(Seq(1L, 2L, 3L)), 4L))
    val request = Bitmaps.rawRequest(Seq((None, Bitmaps.dv(Some(Seq(9L))), dv, -1L)))
    try {
      val r = NativeBridge.resolve(request)
      assert(r.verdict(0) == Verdict.MALFORMED)
      assert(r.role(0) == DvRole.WINNER)
      assert(r.error(0) == DvError.DV_CARDINALITY)
      assert(r.errorCode(0) == 12)
      assert((r.expected(0), r.got(0)) == ((4L, 3L)))
      assert(r.describe(0).startsWith("DV_CARDINALITY in the deletion vector of the winning commit"))
    } finally request.close()
  }

  test("a row beyond the end of the file is refused") {
    resolve(Rows(None, Some(Seq(100L)), Some(Seq(1L)), 100L), Rows(None, Some(Seq(99L)), Some(Seq(1L)), 100L)) { r =>
      assert(r.verdict(0) == Verdict.MALFORMED)
      assert(r.role(0) == DvRole.CURRENT)
      assert(r.error(0) == DvError.DV_ROW_RANGE)
      assert(r.verdict(1) == Verdict.MERGED)
    }
  }

  test("bytes left over, bytes missing and a foreign magic number are refused") {
    val good = Bitmaps.bytes(Seq(1L, 2L, 3L))
    val foreign = good.clone()
    foreign(0) = 0
    val request = Bitmaps.rawRequest(
      Seq(good :+ 0.toByte, good.dropRight(1), foreign, good.take(3), Array[Byte](1)).map { bytes =>
        (None, Bitmaps.dv(Some(Seq(9L))), Some((bytes, 3L)), -1L)
      })
    try {
      val r = NativeBridge.resolve(request)
      assert((0 to 4).map(r.verdict).forall(_ == Verdict.MALFORMED))
      assert((0 to 4).map(r.error) == Seq(DvError.DV_TRAILING_BYTES, DvError.DV_TRUNCATED,
        DvError.DV_BAD_MAGIC, DvError.DV_TRUNCATED, DvError.DV_TRUNCATED))
      (0 to 4).foreach(i => assert(r.describe(i).startsWith(r.error(i).name), r.describe(i)))
    } finally request.close()
  }

  test("random files get the verdict and the rows that Delta's own sets give") {
    val random = new SplittableRandom(20260)
    var seen = Map.empty[Verdict, Int].withDefaultValue(0)
    for (round <- 0 until 60) {
      val limit = Seq(1000L, 70000L, 1000000L, (1L << 32) + 200000, 10L << 32)(random.nextInt(5))
      val files = Seq.fill(random.nextInt(6))(randomFile(random, limit))
      resolve(files: _*) { r =>
        files.indices.foreach { i =>
          val allowed = Bitmaps.verdicts(files(i))
          assert(allowed.contains(r.verdict(i)), s"round $round, file $i: ${r.describe(i)}")
          seen += r.verdict(i) -> (seen(r.verdict(i)) + 1)
          if (r.verdict(i) == Verdict.MERGED) {
            val union = Bitmaps.of(files(i).current.get ++ files(i).winner.getOrElse(Nil))
            assert(RoaringBitmapArray.readFrom(r.bytes(i)) == union, s"round $round, file $i")
            assert(r.cardinality(i) == union.cardinality)
            assert(r.length(i) <= Bitmaps.bytes(union).length, "longer than what Delta writes")
          }
        }
      }
    }
    assert(seen(Verdict.MERGED) > 20, seen)
    Seq(Verdict.UNTOUCHED_OK, Verdict.OVERLAP, Verdict.NOT_AN_EXTENSION).foreach(v => assert(seen(v) > 2, seen))
  }

  private def randomFile(random: SplittableRandom, limit: Long): Rows = {
    def rows: Seq[Long] = Bitmaps.randomRows(random, limit)
    val base = if (random.nextInt(3) == 0) Nil else rows
    val own = rows
    // Mostly disjoint, or there would be little to merge.
    val taken = Bitmaps.of(if (random.nextInt(4) == 0) Nil else own)
    val win = rows.filterNot(taken.contains)
    def some(set: Seq[Long]): Option[Seq[Long]] = if (set.isEmpty) None else Some(set)
    val current = if (random.nextInt(6) == 0) None else some(base ++ own)
    val keptBase = if (random.nextInt(8) == 0) base.drop(1) else base
    val winner = some(keptBase ++ win)
    val last = (base ++ own ++ win).maxOption.getOrElse(-1L)
    Rows(some(base), current, winner, if (random.nextBoolean()) -1L else last + 1)
  }

  test("no flipped, cut or made-up bytes crash the JVM or pass for what they are not") {
    val random = new SplittableRandom(4711)
    val shapes = Seq.fill(12)(Bitmaps.randomRows(random, 1L << 33)).filter(_.nonEmpty).map(Bitmaps.bytes(_))
    var refused = 0
    for (_ <- 0 until 4000) {
      val bytes = shapes(random.nextInt(shapes.size)).clone()
      val damaged = random.nextInt(4) match {
        case 0 => bytes.take(random.nextInt(bytes.length) + 1)
        case 1 =>
          val made = new Array[Byte](1 + random.nextInt(300))
          random.nextBytes(made)
          if (random.nextBoolean() && made.length > 4) System.arraycopy(bytes, 0, made, 0, 4)
          made
        case _ =>
          // In the headers more often than not: that is where the lengths are.
          for (_ <- 0 to random.nextInt(4)) {
            val at = random.nextInt(if (random.nextBoolean()) bytes.length else math.min(bytes.length, 64))
            bytes(at) = (bytes(at) ^ (1 << random.nextInt(8))).toByte
          }
          bytes
      }
      val cardinality = random.nextInt(1000).toLong
      val other = Bitmaps.dv(Some(Seq(1L)))
      val bad = Some((damaged, cardinality))
      val files = Seq((None, bad, other, -1L), (None, other, bad, 1L << 34), (bad, other, other, -1L))
      val request = Bitmaps.rawRequest(files)
      try {
        val r = NativeBridge.resolve(request)
        (0 to 2).foreach { i =>
          if (r.verdict(i) == Verdict.MALFORMED) {
            refused += 1
            assert(r.role(i) != DvRole.NONE)
            assert(r.error(i) != DvError.NONE)
          } else if (r.verdict(i) == Verdict.MERGED) {
            // It can only pass if it is a bitmap of that many rows.
            assert(RoaringBitmapArray.readFrom(damaged).cardinality == cardinality)
          }
        }
      } finally request.close()
    }
    assert(refused > 5000)
  }

  test("a request that breaks the contract is an exception with a code, not a verdict") {
    val bytes = Bitmaps.bytes(Seq(1L))
    val good = Seq[Long](0, 0, 0, 0, 1, 0, bytes.length, 1, 1, 0, bytes.length, 1, 10)
    def broken(name: String, number: Int, value: Long): Unit = {
      val request = new MergeRequest(1)
      request.add(bytes)
      good.updated(number, value).copyToArray(request.table) // behind the Java side's back
      for (call <- Seq[() => Any](() => NativeBridge.resolve(request), () => NativeBridge.overlapCount(request, 0))) {
        val e = intercept[NativeException](call())
        assert(e.code == "REQUEST_MALFORMED" && e.getMessage.contains("file 0: "), s"$name: $e")
        assert(e.getMessage.startsWith(e.code + ": "), s"$name: $e")
      }
      request.close()
    }
    broken("no such array", 4, 2L)
    broken("an array that was not added, where there is room for one", 4, 7L)
    broken("array beyond all", 8, Int.MaxValue.toLong + 1)
    broken("array, negative", 4, -1L)
    broken("offset beyond the end", 5, 1L << 40)
    broken("offset, one too far", 5, 1L)
    broken("offset that wraps", 5, -1L)
    broken("length beyond the end", 6, bytes.length + 1L)
    broken("length that wraps", 6, Long.MaxValue)
    broken("length, negative", 6, -8L)
    broken("absent, with a cardinality", 3, 1L)
    broken("cardinality, negative", 7, -1L)
    broken("number of records, below -1", 12, -2L)
  }

  private def native(name: String): java.lang.reflect.Method = {
    val method = classOf[NativeBridge].getDeclaredMethods.find(_.getName == name).get
    method.setAccessible(true)
    method
  }

  test("a response that is longer than guessed is asked for again") {
    // Natives take any response buffer; the guess is only Java's. Ask with one that is too small.
    val files = Seq.fill(300)(Rows(None, Some(Seq(1L, 3L)), Some(Seq(2L, 1L << 32))))
    val request = Bitmaps.request(files)
    for (size <- Seq(0, 1, 32, 32 + 64 * 300, 32 + 64 * 300 + 100)) {
      val out = new DirectBuffer(math.max(size, 1))
      val used = native("resolve0")
        .invoke(null, request.gathered, Int.box(request.gatheredLength), request.arrays, request.table,
          Int.box(request.table.length), Long.box(out.address), Long.box(size.toLong))
        .asInstanceOf[Long]
      java.lang.ref.Reference.reachabilityFence(out)
      assert(used < 0 && -used > size, s"$used for a buffer of $size")
    }
    val r = NativeBridge.resolve(request)
    assert(files.indices.forall(r.verdict(_) == Verdict.MERGED))
    request.close()
  }

  test("arguments that are not what they should be are refused, not used") {
    for (buffer <- Seq(java.nio.ByteBuffer.allocate(100), null)) {
      assertThrows[NativeException](NativeBridge.address0(buffer))
    }
    val direct = new DirectBuffer(100)
    val one = new Array[Byte](1)
    val none = new Array[Array[Byte]](0)
    val empty = new Array[Long](0)
    // A file whose current deletion vector is the first byte of this array.
    def file(array: Long) = Array(0L, 0, 0, 0, array, 0, 1, 1, 0, 0, 0, 0, -1)
    case class Call(gathered: Array[Byte] = one, gatheredLength: Int = 1, arrays: Array[Array[Byte]] = none,
        table: Array[Long] = empty, tableLength: Int = 0, out: Long = direct.address, length: Long = 100)
    def about(array: Long): Call = Call(table = file(array), tableLength = 13)
    for (call <- Seq(Call(out = 0), Call(out = -8), Call(length = -1), Call(tableLength = -1), Call(table = null),
        Call(table = new Array[Long](12), tableLength = 12), Call(gatheredLength = -1), Call(gathered = null),
        about(0).copy(gathered = null), about(0).copy(gathered = null, gatheredLength = 0),
        about(0).copy(gatheredLength = 0, gathered = new Array[Byte](0)),
        about(0).copy(gathered = null, gatheredLength = 5000), about(1), about(1).copy(arrays = null))) {
      val e = intercept[java.lang.reflect.InvocationTargetException](native("resolve0").invoke(null, call.gathered,
        Int.box(call.gatheredLength), call.arrays, call.table, Int.box(call.tableLength), Long.box(call.out),
        Long.box(call.length)))
      assert(e.getCause.isInstanceOf[NativeException], s"$call: ${e.getCause}")
    }
    java.lang.ref.Reference.reachabilityFence(direct)
  }

  test("arrays of every size, shared and not, are read, held or copied") {
    // Above 16 MiB an array is copied, and above 1 MiB of work arrays are let go in between.
    val random = new SplittableRandom(3)
    def bytes(n: Int, odd: Int): (Array[Byte], Long) = {
      val bitmap = Bitmaps.of(Seq.fill(n)(random.nextLong(20000000L) * 2 + odd))
      (Bitmaps.bytes(bitmap), bitmap.cardinality)
    }
    val pairs = Seq(10, 1000, 100000, 300000, 5).map(n => (bytes(n, 0), bytes(n, 1)))
    def check(request: MergeRequest): Unit =
      try {
        val r = NativeBridge.resolve(request)
        (0 until request.fileCount).foreach { i =>
          val (own, win) = pairs(i % pairs.size)
          assert(r.verdict(i) == Verdict.MERGED, r.describe(i))
          assert(r.cardinality(i) == own._2 + win._2)
          if (i < pairs.size) {
            val union = RoaringBitmapArray.readFrom(own._1)
            union.or(RoaringBitmapArray.readFrom(win._1))
            assert(RoaringBitmapArray.readFrom(r.bytes(i)) == union)
          }
        }
        assert(NativeBridge.overlapCount(request, 3) == 0)
      } finally request.close()
    // Each on its own, often; all in one array; all in one array that is copied.
    val many = new MergeRequest(50)
    (0 until 50).foreach { i =>
      val (own, win) = pairs(i % pairs.size)
      many.setFile(i, 0, 0, 0, 0L, many.add(own._1), 0, own._1.length, own._2,
        many.add(win._1), 0, win._1.length, win._2, 50000000L)
    }
    check(many)
    for (extra <- Seq(0, 17 << 20)) {
      val all = pairs.flatMap(p => Seq(p._1._1, p._2._1)).reduce(_ ++ _) ++ new Array[Byte](extra)
      val request = new MergeRequest(pairs.size)
      val array = request.add(all)
      var at = 0
      pairs.zipWithIndex.foreach { case ((own, win), i) =>
        request.setFile(i, 0, 0, 0, 0L, array, at, own._1.length, own._2,
          array, at + own._1.length, win._1.length, win._2, 50000000L)
        at += own._1.length + win._1.length
      }
      check(request)
      if (extra > 0) { // beyond the end of one that is copied
        for (length <- Seq(11, 5000)) {
          val beyond = new MergeRequest(1)
          val array = beyond.add(all)
          beyond.setFile(0, 0, 0, 0, 0L, array, 0, length, 1L, array, all.length - length + 1, length, 1L, -1L)
          assert(intercept[NativeException](NativeBridge.resolve(beyond)).code == "REQUEST_MALFORMED")
          beyond.close()
        }
      }
    }
  }

  test("the garbage collector runs while arrays are in use") {
    val stop = new java.util.concurrent.atomic.AtomicBoolean
    val collector = new Thread(() => while (!stop.get) { System.gc(); Thread.sleep(1) })
    collector.start()
    try {
      // Fewer where the JVM is emulated, and a collection takes a hundred times as long.
      (0 until Integer.getInteger("delta.rlc.test.rounds", 200).intValue).foreach { round =>
        val files = (0 until 300).map(i => Rows(None, Some(Seq(i.toLong, 70000L * i)), Some(Seq(i + 1000L + round))))
        resolve(files: _*)(r => files.indices.foreach { i =>
          assert(r.verdict(i) == Verdict.MERGED)
          if (i % 50 == 0) assert(rowsOf(r, i) == (files(i).current.get ++ files(i).winner.get).distinct.sorted)
        })
      }
    } finally {
      stop.set(true)
      collector.join()
    }
  }

  test("an empty pass is answered") {
    resolve()(r => assert(r.fileCount == 0))
  }

  test("files may share a deletion vector") {
    val bytes = Bitmaps.bytes(Seq(1L, 2L))
    val own = Bitmaps.bytes(Seq(7L))
    val request = new MergeRequest(100)
    val shared = request.add(bytes)
    val mine = request.add(own)
    (0 until 100).foreach { i =>
      request.setFile(i, 0, 0, 0, 0L, mine, 0, own.length, 1L, shared, 0, bytes.length, 2L, 8L)
    }
    val r = NativeBridge.resolve(request)
    (0 until 100).foreach(i => assert(rowsOf(r, i) == Seq(1L, 2L, 7L)))
    request.close()
  }

  test("ten thousand files in one call") {
    val files = (0 until 10000).map { i =>
      Rows(None, Some(Seq(i.toLong)), Some(Seq(i.toLong + (if (i % 10 == 0) 0 else 1))), 20000L)
    }
    resolve(files: _*) { r =>
      files.indices.foreach { i =>
        assert(r.verdict(i) == (if (i % 10 == 0) Verdict.OVERLAP else Verdict.MERGED))
        if (i % 1000 == 1) assert(rowsOf(r, i) == Seq(i.toLong, i + 1L))
      }
    }
  }

  test("many threads at once, each with its own requests, get their own answers") {
    val threads = 8
    val pool = Executors.newFixedThreadPool(threads)
    try {
      val tasks = (0 until threads).map { t =>
        new Callable[Int] {
          override def call(): Int = {
            val random = new SplittableRandom(t)
            (0 until 150).count { round =>
              val start = random.nextLong(1L << 33)
              val own = (0L until 1L + random.nextInt(3000)).map(start + 2 * _)
              val win = (0L until 1L + random.nextInt(3000)).map(start + 2 * _ + 1)
              resolve(Rows(None, Some(own), Some(win)), Rows(None, Some(own), Some(own.take(1)))) { r =>
                assert(r.verdict(1) == Verdict.OVERLAP && r.detail(1) == own.head, s"thread $t, round $round")
                r.verdict(0) == Verdict.MERGED && rowsOf(r, 0) == (own ++ win).sorted
              }
            }
          }
        }
      }
      val right = pool.invokeAll(tasks.asJava).asScala.map(_.get(5, TimeUnit.MINUTES))
      assert(right.forall(_ == 150), right)
    } finally pool.shutdownNow()
  }

  test("a large bitmap goes through: 20 million rows, 5 % of them") {
    val random = new SplittableRandom(9)
    val (own, win) = (new RoaringBitmapArray, new RoaringBitmapArray)
    (0 until 1000000).foreach { _ =>
      val row = random.nextLong(20000000L)
      (if (row % 2 == 0) own else win).add(row)
    }
    val request = Bitmaps.rawRequest(Seq(
      (None, Some((Bitmaps.bytes(own), own.cardinality)), Some((Bitmaps.bytes(win), win.cardinality)), 20000000L)))
    try {
      val r = NativeBridge.resolve(request)
      assert(r.verdict(0) == Verdict.MERGED)
      own.or(win)
      assert(RoaringBitmapArray.readFrom(r.bytes(0)) == own)
    } finally request.close()
  }

  test("what was closed is not used again") {
    val request = Bitmaps.request(Seq(Rows(None, Some(Seq(1L)), Some(Seq(2L)))))
    val first = NativeBridge.resolve(request)
    assert(first.verdict(0) == Verdict.MERGED)
    val second = NativeBridge.resolve(request)
    assert(intercept[IllegalStateException](first.verdict(0)).getMessage.contains("closed"))
    assert(second.verdict(0) == Verdict.MERGED)
    request.close()
    request.close()
    for (use <- Seq[() => Any](
        () => second.verdict(0), () => second.bytes(0), () => second.buffer(0),
        () => NativeBridge.resolve(request), () => NativeBridge.overlapCount(request, 0))) {
      assert(intercept[IllegalStateException](use()).getMessage.contains("closed"))
    }
  }
}
