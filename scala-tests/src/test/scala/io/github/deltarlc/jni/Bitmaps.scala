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

import org.apache.spark.sql.delta.deletionvectors.{RoaringBitmapArray, RoaringBitmapArrayFormat}

/** One file of a pass, in sets of rows; None is a deletion vector that does not exist. */
private case class Rows(
    base: Option[Seq[Long]],
    current: Option[Seq[Long]],
    winner: Option[Seq[Long]],
    numRecords: Long = -1L)

/** Makes requests out of rows, and answers them with Delta's own classes. */
private object Bitmaps {

  def of(rows: Iterable[Long]): RoaringBitmapArray = {
    val bitmap = new RoaringBitmapArray
    rows.foreach(bitmap.add)
    bitmap
  }

  /** As Delta writes it: run-optimised, in the portable format. */
  def bytes(bitmap: RoaringBitmapArray): Array[Byte] = {
    bitmap.runOptimize()
    bitmap.serializeAsByteArray(RoaringBitmapArrayFormat.Portable)
  }

  def bytes(rows: Iterable[Long]): Array[Byte] = bytes(of(rows))

  /** Bytes and the declared cardinality. */
  type Dv = Option[(Array[Byte], Long)]

  def dv(rows: Option[Seq[Long]]): Dv = rows.map(r => { val b = of(r); (bytes(b), b.cardinality) })

  def request(files: Seq[Rows]): MergeRequest =
    rawRequest(files.map(f => (dv(f.base), dv(f.current), dv(f.winner), f.numRecords)))

  def rawRequest(files: Seq[(Dv, Dv, Dv, Long)]): MergeRequest = {
    val request = new MergeRequest(files.size)
    files.zipWithIndex.foreach { case ((base, current, winner, numRecords), i) =>
      def place(dv: Dv): (Int, Int, Int, Long) = dv.fold((0, 0, 0, 0L)) { case (b, n) =>
        // Every other one stands among other bytes, as in a file.
        if (i % 2 == 0) (request.add(b), 0, b.length, n)
        else (request.add((7.toByte +: b) :+ 7.toByte), 1, b.length, n)
      }
      val (b, c, w) = (place(base), place(current), place(winner))
      request.setFile(i, b._1, b._2, b._3, b._4, c._1, c._2, c._3, c._4, w._1, w._2, w._3, w._4, numRecords)
    }
    request
  }

  /** Every verdict that the rules allow for a file; several where more than one rule is broken. */
  def verdicts(f: Rows): Set[Verdict] = {
    def set(rows: Option[Seq[Long]]): RoaringBitmapArray = of(rows.getOrElse(Nil))
    def lacks(a: RoaringBitmapArray, b: RoaringBitmapArray): Boolean = {
      val rest = a.copy()
      rest.andNot(b)
      !rest.isEmpty
    }
    val (base, current, winner) = (set(f.base), set(f.current), set(f.winner))
    val broken = Set.newBuilder[Verdict]
    if (lacks(base, winner)) broken += Verdict.NOT_AN_EXTENSION
    if (f.current.isDefined) {
      val both = current.copy()
      both.and(winner)
      if (lacks(both, base)) broken += Verdict.OVERLAP
      if (lacks(base, current)) broken += Verdict.BASE_NOT_IN_CURRENT
      else if (!lacks(current, base)) broken += Verdict.NOTHING_NEW
    }
    val refused = broken.result()
    if (refused.nonEmpty) {
      refused
    } else if (f.current.isEmpty) {
      Set(Verdict.UNTOUCHED_OK)
    } else {
      current.or(winner)
      Set(if (current.cardinality == f.numRecords) Verdict.COVERS_FILE else Verdict.MERGED)
    }
  }

  /** Random rows with the shapes that containers have: scattered, dense, in runs, in far buckets. */
  def randomRows(random: SplittableRandom, limit: Long): Seq[Long] = {
    val rows = scala.collection.mutable.TreeSet.empty[Long]
    for (_ <- 0 to random.nextInt(4)) {
      val start = random.nextLong(limit)
      random.nextInt(4) match {
        case 0 => for (_ <- 0 until random.nextInt(200)) rows += random.nextLong(limit)
        case 1 => rows ++= (start until math.min(limit, start + random.nextInt(70000)))
        case 2 => for (_ <- 0 until random.nextInt(9000)) rows += math.min(limit - 1, start + random.nextInt(65536))
        case _ =>
          val step = 2 + random.nextInt(60)
          rows ++= (start until math.min(limit, start + 60000)).filter(_ % step < step / 2)
      }
    }
    rows.toSeq
  }
}
