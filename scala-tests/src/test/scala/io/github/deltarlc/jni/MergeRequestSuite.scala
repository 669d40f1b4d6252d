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

import org.scalatest.funsuite.AnyFunSuite

/** What the Java side of the boundary does by itself; needs no library. */
class MergeRequestSuite extends AnyFunSuite {

  private val long = MergeRequest.LONGEST_GATHERED + 1

  test("the layout is the one that is documented") {
    val request = new MergeRequest(2)
    val (first, second) = (new Array[Byte](10 + long), new Array[Byte](20 + long))
    assert((request.add(first), request.add(second)) == ((1, 2)))
    request.setFile(1, 0, 0, 0, 0L, 2, 2, long, 30L, 1, 4, long, 40L, 99L)
    assert(request.table.toSeq ==
      Seq.fill(13)(0L) ++ Seq(-1L, 0L, 0L, 0L, 2L, 2L, long.toLong, 30L, 1L, 4L, long.toLong, 40L, 99L))
    assert((request.arrays()(1) eq first) && (request.arrays()(2) eq second), "an array was copied")
    assert(request.fileCount == 2)
    request.close()
  }

  test("the deletion vectors of small arrays are gathered, each as it is, however many they are") {
    val bytes = Array.tabulate(MergeRequest.LONGEST_GATHERED)(i => (i * 7 % 251).toByte)
    val half = bytes.length / 2
    for (files <- Seq(1, 3, 10000)) {
      val request = new MergeRequest(files)
      val large = request.add(new Array[Byte](long))
      val array = request.add(bytes)
      def length(file: Int): Int = file * 37 % half
      (0 until files).foreach { i =>
        request.setFile(i, large, i % half, 3, 1L, array, i % half, length(i), 1L, array, 0, length(i), 1L, -1L)
        assert(request.table.slice(13 * i, 13 * i + 3).toSeq == Seq(large, i % half, 3).map(_.toLong))
      }
      var gathered = 0
      for (i <- 0 until files; (place, from) <- Seq(4 -> i % half, 8 -> 0)) {
        val Seq(in, offset, n) = request.table.slice(13 * i + place, 13 * i + place + 3).toSeq: @unchecked
        val there = request.arrays()(in.toInt)
        assert(n == length(i) && java.util.Arrays.equals(
          there, offset.toInt, (offset + n).toInt, bytes, from, from + n.toInt), s"file $i of $files")
        if (n != 0 && in == MergeRequest.GATHERED) gathered += n.toInt
      }
      // Up to the most that is gathered; what comes after that stays where it is.
      val all = (0 until files).map(2 * length(_)).sum
      assert(gathered == all || gathered <= MergeRequest.MOST_GATHERED && gathered > MergeRequest.MOST_GATHERED - half)
      request.close()
    }
  }

  test("a place that is not in its array is left for the native side to refuse, as is the gathered array itself") {
    val request = new MergeRequest(1)
    val array = request.add(new Array[Byte](100))
    for ((in, offset, length) <- Seq((array, 91, 10), (array, -1, 10), (array, Int.MaxValue, 10), (array, 0, -1),
        (array, 0, 101), (array + 1, 0, 10), (-5, 0, 10), (Int.MaxValue, 0, 10))) {
      request.setFile(0, in, offset, length, 1L, 0, 0, 0, 0L, 0, 0, 0, 0L, -1L)
      assert(request.table.toSeq.take(3) == Seq(in.toLong, offset.toLong, length.toLong))
    }
    request.setFile(0, MergeRequest.GATHERED, 0, 10, 1L, 0, 0, 0, 0L, 0, 0, 0, 0L, -1L)
    assert(request.table.head == -1)
    request.close()
  }

  test("any number of arrays can be added") {
    val request = new MergeRequest(0)
    val arrays = Seq.fill(1000)(new Array[Byte](1))
    assert(arrays.map(request.add) == (1 to 1000))
    arrays.indices.foreach(i => assert(request.arrays()(i + 1) eq arrays(i)))
    request.close()
  }

  test("what is no file and no array is refused") {
    val request = new MergeRequest(1)
    for (index <- Seq(-1, 1, Int.MinValue, 330382100)) { // the last one times 13 is 4 again
      assertThrows[IndexOutOfBoundsException](
        request.setFile(index, 0, 0, 0, 0L, 0, 0, 0, 0L, 0, 0, 0, 0L, -1L))
    }
    assertThrows[IllegalArgumentException](request.add(null))
    assertThrows[IllegalArgumentException](new MergeRequest(-1))
    assertThrows[IllegalArgumentException](new MergeRequest(Int.MaxValue))
    request.close()
    request.close()
    assertThrows[IllegalStateException](request.add(new Array[Byte](1)))
    assertThrows[IllegalStateException](request.setFile(0, 0, 0, 0, 0L, 0, 0, 0, 0L, 0, 0, 0, 0L, -1L))
  }

  test("the pool gives back what fits, and never keeps more than its bound") {
    val pool = new BufferPool
    val first = pool.take(100)
    val bytes = first.bytes
    assert(bytes.isDirect && bytes.capacity == (64 << 10) && bytes.order == java.nio.ByteOrder.LITTLE_ENDIAN)
    pool.give(first)
    assert(pool.keptBytes == (64 << 10))
    assert(pool.take(60000) eq first)
    assert(pool.keptBytes == 0)
    assert(pool.take(60000) ne first)
    for ((size, capacity) <- Seq(1 -> 65536, 65536 -> 65536, 65537 -> 131072, 131073 -> 262144,
        (1 << 20) -> (1 << 20), (16 << 20) -> (16 << 20), ((16 << 20) + 1) -> ((16 << 20) + 1))) {
      assert(new BufferPool().take(size).bytes.capacity == capacity, size)
    }
    val large = Seq.fill(4)(pool.take(16 << 20))
    large.foreach(pool.give)
    assert(pool.keptBytes == BufferPool.MAX_KEPT_BYTES, "three of four")
    pool.give(new DirectBuffer(64 << 10))
    assert(pool.keptBytes == BufferPool.MAX_KEPT_BYTES)
    val tooLarge = new BufferPool
    tooLarge.give(tooLarge.take((16 << 20) + 1))
    assert(tooLarge.keptBytes == 0)
  }

  test("the pool gives a buffer that is a little too large, not one that is much too large") {
    val pool = new BufferPool
    val quarterMib = pool.take(256 << 10)
    pool.give(quarterMib)
    assert(pool.take(1) eq quarterMib)
    val mib = pool.take(1 << 20)
    pool.give(mib)
    assert(pool.take(1) ne mib)
    assert(pool.take(300000) eq mib)
  }

  test("two threads never get one buffer") {
    val pool = new BufferPool
    val inUse = java.util.concurrent.ConcurrentHashMap.newKeySet[Integer]()
    val threads = (0 until 8).map { t =>
      new Thread(() => {
        val random = new java.util.SplittableRandom(t)
        for (_ <- 0 until 5000) {
          val b = pool.take(1 + random.nextInt(500000))
          val id: Integer = System.identityHashCode(b)
          if (!inUse.add(id)) failures.incrementAndGet()
          inUse.remove(id)
          pool.give(b)
        }
      })
    }
    threads.foreach(_.start())
    threads.foreach(_.join())
    assert(failures.get == 0)
  }

  private val failures = new java.util.concurrent.atomic.AtomicInteger

  private def response(files: Int)(fill: java.nio.ByteBuffer => Unit): java.nio.ByteBuffer = {
    val b = java.nio.ByteBuffer.allocate(32 + 64 * files + 16).order(java.nio.ByteOrder.LITTLE_ENDIAN)
    b.putInt(0, 0x52434C52).putInt(4, 2).putInt(8, files).putLong(16, b.capacity.toLong)
    fill(b)
    b
  }

  test("an answer that breaks the contract is an exception, not a verdict") {
    def bad(break: java.nio.ByteBuffer => Unit)(use: MergeResponse => Any): Unit = {
      val b = response(1)(break)
      val e = intercept[NativeException](use(new MergeResponse(b, b.capacity.toLong, 1)))
      assert(e.code == NativeException.BAD_RESPONSE)
    }
    val ignore: MergeResponse => Any = _ => ()
    bad(_.putInt(0, 7))(ignore)
    bad(_.putInt(4, 1))(ignore)
    bad(_.putInt(8, 2))(ignore)
    bad(_.putLong(16, 31L))(ignore)
    bad(_.putInt(32, 0))(_.verdict(0))
    bad(_.putInt(32, 9))(_.verdict(0))
    bad(_.putInt(36, 4))(_.role(0))
    bad(_.putInt(40, 15))(_.error(0))
    bad(_.putLong(48, 96L).putLong(56, 17L))(_.bytes(0))
    bad(_.putLong(48, 0L).putLong(56, 8L))(_.bytes(0))
    bad(_.putLong(48, -8L).putLong(56, 8L))(_.bytes(0))
    bad(_.putLong(48, 96L).putLong(56, -8L))(_.bytes(0))
    val b = response(1)(_ => ())
    assertThrows[NativeException](new MergeResponse(b, 5L, 1))
    assertThrows[NativeException](new MergeResponse(b, b.capacity + 1L, 1))
  }

  test("codes are those of the contract") {
    assert(Verdict.values.map(_.code).toSeq == (1 to 8))
    assert(Verdict.values.toSeq.map(_.name) == Seq("MERGED", "UNTOUCHED_OK", "COVERS_FILE", "OVERLAP",
      "NOT_AN_EXTENSION", "BASE_NOT_IN_CURRENT", "NOTHING_NEW", "MALFORMED"))
    assert(DvRole.values.toSeq.map(_.name) == Seq("NONE", "BASE", "CURRENT", "WINNER"))
    assert(DvError.values.toSeq.map(_.name) == Seq("NONE", "DV_TRUNCATED", "DV_BAD_MAGIC", "DV_BAD_COOKIE",
      "DV_KEY_ORDER", "DV_KEY_RANGE", "DV_CONTAINER_SIZE", "DV_VALUE_ORDER", "DV_RUN_RANGE",
      "DV_BITSET_CARDINALITY", "DV_OFFSET_HEADER", "DV_TRAILING_BYTES", "DV_CARDINALITY", "DV_ROW_RANGE",
      "DV_TOO_MANY"))
  }
}
