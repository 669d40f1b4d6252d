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
package org.apache.spark.sql.delta.rlc.storage

import java.nio.file.Files

import scala.util.Try

import io.github.deltarlc.{Resolution, ResolutionListener, RowLevelConcurrency}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.delta.DeltaConcurrentModificationException
import org.apache.spark.sql.delta.DeltaOperations.ManualUpdate
import org.apache.spark.sql.delta.actions.AddFile
import org.apache.spark.sql.delta.rlc.{MergedBitmap, MergedDeletionVectorWriter}
import org.apache.spark.sql.delta.rlc.harness.RlcSession
import org.apache.spark.sql.delta.storage.dv.DeletionVectorStore

/** Deletion vectors at the edges of the format, from the log through the merge and back. */
class BitmapEdgesSuite extends AnyFunSuite {

  private def table(rows: Long): SyntheticTable = new SyntheticTable(
    RlcSession.on, Files.createTempDirectory(RlcSession.root, "edges"), fileCount = 1, rows)

  /** A loser and a winner on one file; what the resolution said, and how the loser ended. */
  private def race(
      t: SyntheticTable, base: Seq[Long], loser: Seq[Long], winner: Seq[Long]):
      (Seq[Resolution], Try[Long]) = {
    val file = t.files.head
    if (base.nonEmpty) t.delete(Map(file -> base))
    val txn = t.startLoser()
    val actions = t.prepare(txn, Map(file -> loser))
    t.delete(Map(file -> winner))
    var seen = Vector.empty[Resolution]
    val listener: ResolutionListener = r => seen :+= r
    RowLevelConcurrency.addListener(listener)
    try {
      val result = Try(txn.commit(actions, ManualUpdate))
      (seen, result)
    } finally RowLevelConcurrency.removeListener(listener)
  }

  private def live(t: SyntheticTable): AddFile = t.log.update().allFiles.collect().head

  test("[trap 30] two deletion vectors of more than 2 MiB each are merged") {
    // A quarter of the rows on each side: containers of 8 KiB, 300 of them.
    val rows = 300L * 65536
    val t = table(rows)
    val (seen, result) = race(t, Nil, 0L until rows by 4, 2L until rows by 4)
    result.get
    assert(seen.map(_.bytesRead).sum > 2 * (2L << 20))
    val dv = live(t).deletionVector
    assert(dv.sizeInBytes > (2 << 20))
    assert(dv.cardinality === rows / 2)
    val read = DeletionVectorStore.createInstance(t.log.newDeltaHadoopConf())
      .read(dv, t.log.dataPath)
    assert(read.cardinality === rows / 2)
    for (row <- Seq(0L, 2L, rows - 4, rows - 2)) {
      assert(read.contains(row) && !read.contains(row + 1), row)
    }
  }

  test("[trap 30] merged vectors that would pass 1 GiB in one file go into several") {
    val third = new Array[Byte](350 << 20)
    val merged = (1 to 7).map(i => s"file $i" -> MergedBitmap(third, 1L))
    val bins = MergedDeletionVectorWriter.bins(merged)
    assert(bins.map(_.size) === Seq(2, 2, 2, 1))
    assert(bins.flatten === merged)
  }

  test("[trap 33] positions beyond 2^32 are compared and merged") {
    val far = 1L << 32
    val t = table(rows = 3 * far)
    val (_, result) =
      race(t, Seq(far - 1), Seq(5L, far + 5, 2 * far), Seq(far, far + 6, 3 * far - 1))
    result.get
    assert(t.deleted().values.head ===
      Seq(5L, far - 1, far, far + 5, far + 6, 2 * far, 3 * far - 1))
    // The low halves are the same, the rows are not; and with the same row it is a conflict.
    val (_, apart) = race(t, Nil, Seq(9L), Seq(far + 9))
    apart.get
    val (_, same) = race(t, Nil, Seq(far + 11), Seq(far + 11))
    assert(same.failed.get.isInstanceOf[DeltaConcurrentModificationException])
  }

  for (rows <- Seq(65535L, 65536L, 65537L)) {
    test(s"[trap 37] [trap 35] the first and the last row of a file of $rows") {
      val t = table(rows)
      val (_, result) = race(t, Seq(1L), Seq(0L), Seq(rows - 1))
      result.get
      assert(t.deleted().values.head === Seq(0L, 1L, rows - 1))
      // Both delete the last row; and then all that is left.
      val (_, same) = race(t, Nil, Seq(2L, rows - 2), Seq(3L, rows - 2))
      assert(same.failed.get.isInstanceOf[DeltaConcurrentModificationException])
      val (seen, all) = race(t, Nil, 2L until rows / 2, rows / 2 until rows - 1)
      // Row 3 and the last but one have gone with the winner of before.
      all.get
      assert(seen.map(_.removed.size) === Seq(1))
      assert(t.deleted() === Map.empty)
    }
  }

  test("[trap 37] a file of one row: the second of two DELETEs conflicts") {
    val t = table(rows = 1L)
    val (_, result) = race(t, Nil, Seq(0L), Seq(0L))
    assert(result.failed.get.isInstanceOf[DeltaConcurrentModificationException])
  }

  test("[trap 35] a winner's row at the number of rows is refused, one below is not") {
    val t = table(rows = 100L)
    val (seen, result) = race(t, Nil, Seq(1L), Seq(100L))
    assert(result.failed.get.isInstanceOf[DeltaConcurrentModificationException])
    assert(seen.flatMap(_.refusals).map(_.rule) === Seq("P6"))
    val sound = table(rows = 100L)
    race(sound, Nil, Seq(1L), Seq(99L))._2.get
  }
}
