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
package org.apache.spark.sql.delta.rlc

import io.delta.exceptions.{ConcurrentAppendException, ConcurrentDeleteReadException, MetadataChangedException}

import org.apache.spark.sql.delta.{DeltaLog, DeltaOperations}
import org.apache.spark.sql.delta.actions.Action
import org.apache.spark.sql.delta.rlc.harness._

/** Lines P of the rule table: which files of an eligible statement are merged. */
class PathRuleSuite extends RowLevelTest {
  import TableSpec._

  private def delete(ids: Int*): Statement =
    s"DELETE FROM {t} WHERE id IN (${ids.mkString(", ")})"
  private def update(id: Int, v: Int): Statement = s"UPDATE {t} SET v = $v WHERE id = $id"
  private def restore(version: Long): Statement = s"RESTORE TABLE {t} TO VERSION AS OF $version"

  // ---- P1: one unbroken chain of entries

  test("[S24] [trap 12] [P1] a winner that purged deletion vectors conflicts") {
    loserAborts[ConcurrentAppendException](TableSpec(), delete(1),
      Seq(delete(2), "REORG TABLE {t} APPLY (PURGE)"), refusedBy = "P1")
  }

  test("[S25] [trap 12] [P1] a winner that compacted the file conflicts") {
    loserAborts[ConcurrentAppendException](twoFiles, delete(1),
      Seq(delete(2), "OPTIMIZE {t}"), refusedBy = "P1")
  }

  test("[trap 12] [P1] an OPTIMIZE alone conflicts as on stock") {
    loserAborts[ConcurrentAppendException](twoFiles, delete(1), Seq("OPTIMIZE {t}"),
      refusedBy = "P1")
  }

  test("[S26] [P1] a winner whose commit started an auto compaction conflicts") {
    val t = table(twoFiles.withProperties("delta.autoOptimize.autoCompact" -> "true"))
    withConf("spark.databricks.delta.autoCompact.minNumFiles" -> "2",
        "spark.databricks.delta.autoCompact.earlySkipPartitionTable.enabled" -> "false",
        "spark.databricks.delta.autoCompact.modifiedPartitionsOnly.enabled" -> "false") {
      val a = t.begin(delete(1))
      // Only statements that write data files start one.
      val winner = t.run(update(2, -1))
      assert(winner.versions.size === 2, "the winner and its compaction")
      t.conflict[ConcurrentAppendException](a)
      assertRefused(a, "P1")
    }
    t.check(CheckOptions.winnersOnly)
  }

  test("[S30] [P1] a winner that removed a file which was read and not touched conflicts") {
    loserAborts[ConcurrentDeleteReadException](twoFiles,
      "DELETE FROM {t} WHERE v % 100 = 10 AND id < 15 AND id != 11",
      Seq("DELETE FROM {t} WHERE id >= 10"), refusedBy = "P1")
  }

  test("[S31] [trap 12] [P1] a winner that removed a file which was touched conflicts") {
    loserAborts[ConcurrentDeleteReadException](twoFiles, delete(1, 11),
      Seq("DELETE FROM {t} WHERE id >= 10"), refusedBy = "P1")
  }

  test("[S63] [P1] a replaceWhere that won conflicts by its new file") {
    loserAborts[ConcurrentAppendException](TableSpec(), delete(1),
      Seq(Statement.of("replaceWhere id = 2")((s, name) =>
        s.sql("SELECT 2L AS id, -1L AS v").write.format("delta").mode("overwrite")
          .option("replaceWhere", "id = 2").save(Statement.pathOf(name)))))
  }

  test("[trap 7] [P1] a winner over another base deletion vector conflicts") {
    // Another engine that read an older state and committed all the same: its tombstone has no DV.
    val t = table(TableSpec().after("DELETE FROM {t} WHERE id = 9"))
    val a = t.begin(delete(1))
    val log = DeltaLog.forTable(spark, t.dir.toString)
    val add = log.update().allFiles.head()
    val dv = RawCommits.descriptor(t.dir, Seq(2), RawCommits.OnDisk)
    val actions: Seq[Action] = Seq(
      add.copy(deletionVector = dv, dataChange = true), add.copy(deletionVector = null).remove)
    log.startTransaction(None).commit(actions, DeltaOperations.ManualUpdate)
    t.conflict[ConcurrentAppendException](a)
    assertRefused(a, "P1")
  }

  test("[trap 13] [P1] statistics computed anew by a winner are no deletion vector update") {
    loserAborts[ConcurrentAppendException](TableSpec(), delete(1),
      // Delta's own command refuses tables with deletion vectors; this is what it would commit.
      Seq(Statement.of("COMPUTE STATS") { (s, name) =>
        val txn = DeltaLog.forTable(s, Statement.pathOf(name)).startTransaction(None)
        txn.commit(txn.snapshot.allFiles.collect().toSeq.map(_.copy(dataChange = false)),
          DeltaOperations.ComputeStats(Nil))
      }),
      refusedBy = "P1")
  }

  test("[trap 13] [P1] row tracking enabled with its backfill by winners keeps the chain and the " +
      "row ids") {
    val t = table()
    val a = t.begin(delete(1))
    t.run("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')")
    val ids = t.rows(columns = "id, _metadata.row_id").toSet
    t.run(delete(2))
    t.commit(a)
    assertResolved(a, merged = 1, untouched = 0)
    assert(t.rows(columns = "id, _metadata.row_id").toSet === ids - "[1,1]" - "[2,2]")
    t.check()
  }

  test("[trap 8] [S44] [P1] a chain of ten winners is one merge and one read of the last DV") {
    val t = table(TableSpec(files = Seq(rows(0, 30))))
    val a = t.begin(delete(20))
    (1 to 10).foreach(i => t.run(delete(i)))
    t.commit(a)
    assertResolved(a, merged = 1, untouched = 0)
    // The last winner's and the loser's own.
    assert(lastResolution(a).dvReads === 2)
    assert(lastResolution(a).dvFilesWritten.size === 1)
    assert(t.replay.live.flatMap(_.dv).map(_.cardinality) === Seq(11))
    t.check()
  }

  test("[trap 8] [P1] a chain of a hundred winners") {
    val t = table(TableSpec(files = Seq(rows(0, 200))))
    val a = t.begin(delete(150))
    (0 until 100).foreach(i => t.run(RawCommits.delete(Seq(i.toLong))))
    t.commit(a)
    assertResolved(a, merged = 1, untouched = 0)
    assert(lastResolution(a).dvReads === 2)
    assert(t.ids() === (100 until 200).filter(_ != 150))
    t.check(CheckOptions(oracle = false))
  }

  test("[trap 8] [P5] an overlap with the middle one of three winners leaves nothing behind") {
    val t = loserAborts[ConcurrentAppendException](TableSpec(), delete(1, 3),
      Seq(delete(2), delete(3), delete(4)), refusedBy = "P5")
    assert(t.ids() === Seq(0, 1, 5, 6, 7, 8, 9))
  }

  // ---- P2: the file was there before

  private val appended: Statement =
    "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, id * 10 FROM range(20, 23)"

  test("[P2] a winner deletes rows of a file that another winner appended") {
    loserAborts[ConcurrentAppendException](TableSpec(), delete(1),
      Seq(appended, delete(20)))
  }

  test("[P2] the same over two passes") {
    val t = table()
    val a = t.begin(delete(1))
    t.run(delete(2))
    a.afterPass(1) {
      t.run(appended)
      t.run(delete(20))
    }
    t.conflict[ConcurrentAppendException](a)
    assert(a.resolutions.map(_.rebased) === Seq(true, false))
    t.check(CheckOptions.winnersOnly)
  }

  // ---- P3: the loser has a deletion vector on it, or nothing

  test("[S32] [P3] a statement that deletes every row of a file conflicts with any winner in it") {
    val t = loserAborts[ConcurrentAppendException](
      TableSpec(), "DELETE FROM {t} WHERE id >= 0", Seq(delete(2)), refusedBy = "P3")
    assert(t.ids().size === 9)
  }

  test("[P3] deleting every row of one file conflicts although another file could be merged") {
    loserAborts[ConcurrentAppendException](twoFiles,
      "DELETE FROM {t} WHERE id < 11", Seq(delete(1, 12)), refusedBy = "P3")
  }

  // ---- P4: rows only went away

  /** As `bothCommit`, where Delta lets a RESTORE pass as a winner; else `loser` fails. */
  private def bothCommitAfterRestore(
      spec: TableSpec, loser: Statement, winners: Seq[Statement], left: Seq[Long]): Unit = {
    if (DeltaCan.passHarmlessMetadata) {
      assert(bothCommit(spec, loser, winners).ids() === left)
    } else {
      loserAborts[MetadataChangedException](spec, loser, winners)
    }
  }

  test("[S21] [trap 6] [P4] a RESTORE that brings rows back conflicts") {
    val t = loserAbortsBehindMetadata(
      TableSpec().after("DELETE FROM {t} WHERE id = 5", "DELETE FROM {t} WHERE id = 7"),
      delete(9), Seq(restore(1)), refusedBy = "P4")
    assert(t.ids() === Seq(0, 1, 2, 3, 4, 6, 7, 8, 9))
  }

  test("[S22] [P4] a RESTORE and the same DELETE once more end in the same state") {
    // The base is grown back to what the loser read, by other DVs: only the last one matters.
    bothCommitAfterRestore(
      TableSpec().after("DELETE FROM {t} WHERE id = 4", "DELETE FROM {t} WHERE id = 5"),
      delete(9), Seq(restore(1), delete(5)), left = Seq(0, 1, 2, 3, 6, 7, 8))
  }

  test("[S23] [P4] a DELETE that a RESTORE took back leaves its row alive") {
    bothCommitAfterRestore(TableSpec().after("DELETE FROM {t} WHERE id = 5"),
      delete(9), Seq(delete(7), restore(1)), left = Seq(0, 1, 2, 3, 4, 6, 7, 8))
  }

  test("[P4] a RESTORE to a version without a deletion vector conflicts") {
    loserAborts[ConcurrentAppendException](TableSpec(), delete(9), Seq(delete(7), restore(0)),
      refusedBy = "P1")
  }

  test("[P4] [E1] a RESTORE that brings rows back in a file the loser only read conflicts") {
    loserAbortsBehindMetadata(
      mixedFiles.after("DELETE FROM {t} WHERE id = 2", "DELETE FROM {t} WHERE id = 4"),
      delete(9), Seq(restore(1 + 1)), refusedBy = "P4")
  }

  test("[P4] a file merged away in one pass comes back when a RESTORE wins the next") {
    assume(DeltaCan.passHarmlessMetadata)
    val spec = TableSpec(files = Seq(rows(0, 3))).after("DELETE FROM {t} WHERE id = 2")
    val t = table(spec)
    val a = t.begin(delete(0))
    t.run(delete(1))
    a.afterPass(1)(t.run(restore(1)))
    t.commit(a)
    assert(a.resolutions.map(_.removed.size) === Seq(1, 0))
    assert(a.resolutions.map(_.merged.size) === Seq(0, 1))
    assert(t.ids() === Seq(1))
    t.check()
  }

  // ---- P5: not the same row twice

  test("[trap 4] [S40] a row that an UPDATE moves into the predicate conflicts") {
    val t = loserAborts[ConcurrentAppendException](partitioned,
      "DELETE FROM {t} WHERE p = 0 AND v > 20", Seq("UPDATE {t} SET v = 25 WHERE p = 0 AND id = 1"))
    assert(t.rows().contains("[1,25,0]"))
  }

  test("[trap 4] the same on an unpartitioned table") {
    loserAborts[ConcurrentAppendException](
      TableSpec(), "DELETE FROM {t} WHERE v > 70", Seq(update(1, 75)))
  }

  test("[trap 5] a row that an UPDATE moves out of the predicate conflicts") {
    val t = loserAborts[ConcurrentAppendException](
      TableSpec(), "DELETE FROM {t} WHERE v > 70", Seq(update(9, 5)))
    assert(t.rows().contains("[9,5]"))
  }

  test("[trap 5] [S41] a row that leaves predicate and partition conflicts by its removed side") {
    loserAborts[ConcurrentAppendException](partitioned,
      "DELETE FROM {t} WHERE p = 0 AND id = 1", Seq("UPDATE {t} SET p = 1 WHERE p = 0 AND id = 1"),
      refusedBy = "P5")
  }

  test("[S41] an UPDATE that moves another row to a partition the loser does not read commits") {
    bothCommit(partitioned,
      "DELETE FROM {t} WHERE p = 0 AND id = 1", Seq("UPDATE {t} SET p = 1 WHERE p = 0 AND id = 2"))
  }

  test("[S42] the same conflicts when the loser reads all partitions") {
    loserAborts[ConcurrentAppendException](partitioned,
      delete(1), Seq("UPDATE {t} SET p = 1 WHERE p = 0 AND id = 2"))
  }

  test("[S43] an UPDATE commits beside a DELETE of other rows, its image once") {
    val t = bothCommit(TableSpec(), update(1, -1), Seq(delete(2)))
    assert(t.rows().count(_.startsWith("[1,")) === 1)
  }

  test("[trap 9] [P5] two files, one disjoint and one overlapping, abort with no partial effect") {
    val t = loserAborts[ConcurrentAppendException](
      mixedFiles, delete(0, 1), Seq(delete(2, 1)), refusedBy = "P5")
    assert(t.ids() === (0 until 20).filterNot(Set(1, 2)))
  }

  test("[trap 14] [trap 15] [P5] the same row deleted twice conflicts") {
    loserAborts[ConcurrentAppendException](TableSpec(), delete(1), Seq(delete(1)), refusedBy = "P5")
  }

  test("[trap 18] [P5] the same row found by different predicates conflicts") {
    loserAborts[ConcurrentAppendException](partitioned, "DELETE FROM {t} WHERE p = 0 AND id = 1",
      Seq("DELETE FROM {t} WHERE v = 10"), refusedBy = "P5")
  }

  // ---- P6: deletion vectors are what the log says

  test("[trap 34] [P6] a winner whose log declares another cardinality conflicts") {
    val t = table()
    val a = t.begin(delete(1))
    RawCommits.change(spark, t.name) { _ =>
      Some(RawCommits.descriptor(t.dir, Seq(2, 3), RawCommits.OnDisk).copy(cardinality = 1))
    }
    t.conflict[ConcurrentAppendException](a)
    assertRefused(a, "P6")
  }

  test("[trap 35] [P6] a winner with a position beyond the rows of the file conflicts") {
    val t = table()
    val a = t.begin(delete(1))
    RawCommits.change(spark, t.name) { _ =>
      Some(RawCommits.descriptor(t.dir, Seq(2, 10), RawCommits.OnDisk))
    }
    t.conflict[ConcurrentAppendException](a)
    assertRefused(a, "P6")
  }

  test("[S74] [P6] positions beyond two to the thirty-first, a million of them, are merged") {
    // The file has ten rows; its entry claims five thousand million, and readers do not mind.
    val t = table()
    val txn = t.log.startTransaction(None)
    txn.commit(txn.snapshot.allFiles.collect().toSeq.map(add => add.copy(dataChange = true,
      stats = add.stats.replace("\"numRecords\":10,", "\"numRecords\":5000000000,"))),
      DeltaOperations.ManualUpdate)
    val a = t.begin(delete(1))
    val far = (3000000000L until 3001000000L).toSeq
    t.run(RawCommits.delete(2L +: far))
    t.commit(a)
    assertResolved(a, merged = 1, untouched = 0)
    assert(DvFiles.positions(t.dir, t.replay.live.head) === Seq(1L, 2L) ++ far)
    assert(t.ids() === Seq(0, 3, 4, 5, 6, 7, 8, 9))
  }

  // ---- the union

  test("[S33] [trap 10] two halves of a file leave a RemoveFile alone") {
    val t = table(TableSpec(files = Seq(rows(0, 4))).cdf)
    val a = t.begin("DELETE FROM {t} WHERE id < 2")
    val winner = t.run("DELETE FROM {t} WHERE id >= 2").version
    val loser = t.commit(a).version
    assert(lastResolution(a).removed.size === 1)
    assert(lastResolution(a).dvFilesWritten.isEmpty)
    val last = t.replay.commit(loser)
    assert((last.adds.size, last.removes.size) === ((0, 1)))
    assert(t.replay.live.isEmpty)
    assert(t.changes(winner).size === 2)
    assert(t.changes(loser).size === 2)
    t.check()
  }

  test("[trap 10] two halves of a file over a base, by MERGE and UPDATE, leave no empty file") {
    val spec = TableSpec(files = Seq(rows(0, 5))).after("DELETE FROM {t} WHERE id = 4")
    val t = bothCommit(spec, "UPDATE {t} SET v = -1 WHERE id < 2", Seq("""MERGE INTO {t}
      USING (SELECT explode(array(2, 3)) AS k) s ON id = s.k WHEN MATCHED THEN DELETE"""))
    assert(t.rows() === Seq("[0,-1]", "[1,-1]"))
    assert(t.replay.live.size === 1)
  }

  test("[trap 10] without statistics the loser's own count of rows is used") {
    val t = bothCommit(TableSpec(files = Seq(rows(0, 4)),
      properties = Map("delta.dataSkippingNumIndexedCols" -> "0")),
      "DELETE FROM {t} WHERE id < 2", Seq("DELETE FROM {t} WHERE id = 2"))
    assert(t.ids() === Seq(3))
  }

  // ---- files the loser did not touch

  test("[S27] [E2] a file that statistics kept the loser from reading does not conflict") {
    bothCommit(twoFiles, delete(1), Seq(delete(11)), merged = 0, untouched = 1)
  }

  test("[S28] [trap 11] [E1] a file that was read without a match does not conflict") {
    bothCommit(mixedFiles, delete(1), Seq(delete(2)), merged = 0, untouched = 1)
  }

  test("[E1] the same over base deletion vectors, which have to be compared") {
    val t = bothCommit(mixedFiles.after("DELETE FROM {t} WHERE id IN (4, 5)"),
      delete(1), Seq(delete(2)), merged = 0, untouched = 1)
    assert(t.replay.live.flatMap(_.dv).map(_.cardinality) === Seq(2, 2))
  }

  test("[S29] [E1] one file merged, one left alone, one DV file written") {
    val spec = TableSpec(files = Seq(rows(0, 10), rows(10, 20), rows(20, 30)))
    val t = table(spec)
    val a = t.begin(delete(1, 11))
    t.run(delete(12, 22))
    t.commit(a)
    assertResolved(a, merged = 1, untouched = 1)
    assert(lastResolution(a).dvFilesWritten.size === 1)
    t.check()
  }

  test("[E1] a MERGE reads every file, and a DELETE in one it left alone does not conflict") {
    bothCommit(mixedFiles, "MERGE INTO {t} USING (SELECT 1 AS k) s ON id = s.k " +
      "WHEN MATCHED THEN UPDATE SET v = -1 WHEN NOT MATCHED THEN INSERT (id, v) VALUES (k, -1)",
      Seq(delete(2)), merged = 0, untouched = 1)
  }

  // ---- more than one pass

  test("[S45] a second pass merges onto the first and leaves its DV file behind it") {
    val t = table()
    val a = t.begin(delete(1))
    t.run(delete(2))
    a.afterPass(1)(t.run(delete(3)))
    t.commit(a)
    assert(a.resolutions.map(_.pass) === Seq(1, 2))
    assert(a.resolutions.forall(_.merged.size == 1))
    assert(a.resolutions.flatMap(_.dvFilesWritten).distinct.size === 2)
    // The loser's own DV is not read a second time, nor is what the first pass wrote.
    assert(a.resolutions(1).dvReads === 1)
    assert(t.replay.live.flatMap(_.dv).map(_.cardinality) === Seq(3))
    t.check()
  }

  test("[S45] five passes, over a base, with a file that only winners change") {
    val t = table(mixedFiles.after("DELETE FROM {t} WHERE id IN (0, 1)"))
    val a = t.begin(delete(3))
    t.run(delete(2, 5))
    (1 to 4).foreach(i => a.afterPass(i)(t.run(delete(2 * i + 4, 2 * i + 5))))
    t.commit(a)
    assert(a.resolutions.map(_.merged.size) === Seq(1, 1, 1, 1, 1))
    assert(a.resolutions.map(_.untouched.size) === Seq(1, 1, 1, 1, 1))
    t.check()
  }

  test("[S46] a second pass that overlaps conflicts and leaves nothing of the first") {
    val t = table()
    val a = t.begin(delete(1))
    t.run(delete(2))
    a.afterPass(1)(t.run(delete(1)))
    t.conflict[ConcurrentAppendException](a)
    assert(a.resolutions.map(_.rebased) === Seq(true, false))
    assertRefused(a, "P5")
    assert(t.ids() === Seq(0, 3, 4, 5, 6, 7, 8, 9))
    t.check(CheckOptions.winnersOnly)
  }

  test("[S45] an UPDATE over two passes keeps its image once") {
    val t = table(TableSpec().cdf.rowTracking)
    val a = t.begin(update(1, -1))
    t.run(delete(2))
    a.afterPass(1)(t.run(delete(3)))
    t.commit(a)
    assert(t.rows().count(_.startsWith("[1,")) === 1)
    t.check()
  }

  test("a loser whose winners touched nothing of it is committed as it is") {
    val t = table(partitioned)
    val a = t.begin("DELETE FROM {t} WHERE p = 0 AND id = 1")
    t.run("INSERT INTO {t} VALUES (77, 770, 1)")
    t.commit(a)
    assert(lastResolution(a).merged.isEmpty)
    assert(lastResolution(a).dvFilesWritten.isEmpty)
    t.check()
  }

  test("[S36] a blind append to another partition does not conflict beside a merge") {
    bothCommit(partitioned, "DELETE FROM {t} WHERE p = 0 AND id = 1",
      Seq("INSERT INTO {t} VALUES (77, 770, 1)", "DELETE FROM {t} WHERE p = 0 AND id = 2"))
  }
}
