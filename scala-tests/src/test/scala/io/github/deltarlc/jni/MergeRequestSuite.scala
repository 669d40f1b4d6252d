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

  test("the layout is the one that is documented") {
    val request = new MergeRequest(2, 7L)
    val offset = request.reserve(7)
    request.put(offset, Array[Byte](1, 2, 3, 4, 5, 6, 7), 0, 7)
    request.setFile(1, 0, 0, 0L, offset, 3, 30L, offset + 3, 4, 40L, 99L)
    val b = request.complete()
    assert(new String(Array.tabulate(4)(i => b.get(i)), "US-ASCII") == "RLCQ")
    assert((b.getInt(4), b.getInt(8), b.getInt(12)) == ((1, 2, 0)))
    assert((b.getLong(16), b.getLong(24)) == ((32L + 2 * 80 + 7, 0L)))
    assert((0 until 10).map(f => b.getLong(32 + 8 * f)) == Seq.fill(9)(0L) :+ -1L, "an entry that was not set")
    assert((0 until 10).map(f => b.getLong(112 + 8 * f)) ==
      Seq(0L, 0L, 0L, 192L, 3L, 30L, 195L, 4L, 40L, 99L))
    assert((0 until 7).map(i => b.get(192 + i).toInt) == (1 to 7))
    request.close()
  }

  test("a slice is a view of its range alone") {
    val request = new MergeRequest(1, 20L)
    val first = request.reserve(8)
    val second = request.reserve(12)
    val view = request.slice(second, 12)
    assert((view.position(), view.limit(), view.capacity) == ((0, 12, 12)))
    view.putInt(0, 42)
    assert(request.complete().getInt(second) == 42)
    assert(second == first + 8)
    request.close()
  }

  test("ranges that were not reserved are refused") {
    val request = new MergeRequest(1, 20L)
    val offset = request.reserve(10)
    for ((at, len) <- Seq((offset, 11), (offset - 1, 5), (0, 4), (-1, 4), (offset, -1), (Int.MaxValue, Int.MaxValue))) {
      assertThrows[IllegalArgumentException](request.slice(at, len))
      assertThrows[IllegalArgumentException](request.setFile(0, at, len, 1L, 0, 0, 0L, 0, 0, 0L, -1L))
    }
    assertThrows[IllegalStateException](request.reserve(11))
    assertThrows[IllegalArgumentException](request.reserve(0))
    request.close()
  }

  test("half an entry is never left behind") {
    val request = new MergeRequest(1, 20L)
    val offset = request.reserve(10)
    val e = intercept[IllegalArgumentException](
      request.setFile(0, offset, 5, 1L, offset, 5, 1L, offset, 50, 1L, 7L))
    assert(e.getMessage.startsWith("file 0: range of 50 bytes"))
    assert((0 until 10).map(f => request.complete().getLong(32 + 8 * f)) == Seq.fill(9)(0L) :+ -1L)
    request.close()
  }

  test("numbers that mean nothing are refused") {
    val request = new MergeRequest(1, 20L)
    val offset = request.reserve(10)
    def refused(part: String)(f: => Unit): Unit =
      assert(intercept[RuntimeException](f).getMessage.contains(part))
    refused("absent but has cardinality 1")(request.setFile(0, 0, 0, 1L, 0, 0, 0L, 0, 0, 0L, -1L))
    refused("cardinality -1")(request.setFile(0, offset, 5, -1L, 0, 0, 0L, 0, 0, 0L, -1L))
    refused("numRecords")(request.setFile(0, 0, 0, 0L, 0, 0, 0L, 0, 0, 0L, -2L))
    refused("file 1 of 1")(request.setFile(1, 0, 0, 0L, 0, 0, 0L, 0, 0, 0L, -1L))
    request.close()
  }

  test("a pass of more than 2 GiB is refused before anything is allocated") {
    val e = intercept[IllegalArgumentException](new MergeRequest(10, 1L << 31))
    assert(e.getMessage.contains("split the pass"))
    assert(MergeRequest.bytesNeeded(10, 1L << 31) == 32 + 800 + (1L << 31))
    assertThrows[IllegalArgumentException](new MergeRequest(Int.MaxValue, 0L))
    assertThrows[IllegalArgumentException](new MergeRequest(-1, 0L))
    assertThrows[IllegalArgumentException](new MergeRequest(1, -1L))
    assertThrows[ArithmeticException](MergeRequest.bytesNeeded(1, Long.MaxValue))
  }

  test("a request that got no answer does not give its buffer back, as a late reader may hold a part of it") {
    val request = new MergeRequest(1, 1000L)
    val late = request.slice(request.reserve(1000), 1000)
    request.close()
    val next = new MergeRequest(1, 1000L)
    val mine = next.slice(next.reserve(1000), 1000)
    mine.put(0, 1.toByte)
    late.put(0, 2.toByte)
    assert(mine.get(0) == 1)
    next.close()
  }

  test("the pool gives back what fits, and never keeps more than its bound") {
    val pool = new BufferPool
    val first = pool.take(100)
    assert(first.isDirect && first.capacity == (64 << 10) && first.order == java.nio.ByteOrder.LITTLE_ENDIAN)
    pool.give(first)
    assert(pool.keptBytes == (64 << 10))
    assert(pool.take(60000) eq first)
    assert(pool.keptBytes == 0)
    assert(pool.take(60000) ne first)
    for ((size, capacity) <- Seq(1 -> 65536, 65536 -> 65536, 65537 -> 131072, 131073 -> 262144,
        (1 << 20) -> (1 << 20), (16 << 20) -> (16 << 20), ((16 << 20) + 1) -> ((16 << 20) + 1))) {
      assert(new BufferPool().take(size).capacity == capacity, size)
    }
    val large = Seq.fill(4)(pool.take(16 << 20))
    large.foreach(pool.give)
    assert(pool.keptBytes == BufferPool.MAX_KEPT_BYTES, "three of four")
    pool.give(java.nio.ByteBuffer.allocateDirect(64 << 10))
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
    b.putInt(0, 0x52434C52).putInt(4, 1).putInt(8, files).putLong(16, b.capacity.toLong)
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
    bad(_.putInt(4, 2))(ignore)
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
