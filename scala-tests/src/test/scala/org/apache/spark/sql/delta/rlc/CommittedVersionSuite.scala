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

import java.nio.file.{Files, Paths}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.delta.DeltaLog
import org.apache.spark.sql.delta.rlc.harness._
import org.apache.spark.sql.delta.stats.StatisticsCollection

/** What a merged commit looks like to everybody who reads it: invariants O1 to O19. */
class CommittedVersionSuite extends RowLevelTest {
  import TableSpec._

  private def delete(ids: Int*): Statement =
    s"DELETE FROM {t} WHERE id IN (${ids.mkString(", ")})"
  private def update(id: Int): Statement = s"UPDATE {t} SET v = -1 WHERE id = $id"

  test("[trap 19] [O1] after every version there is one live entry a path, with and without a " +
      "checkpoint") {
    val t = table(TableSpec().after("DELETE FROM {t} WHERE id = 9"))
    val a = t.begin(delete(1))
    val b = t.begin(update(3))
    t.run(delete(2))
    t.commit(a)
    t.commit(b)
    t.check()
    // check() left a checkpoint; the log alone must say the same.
    val rows = t.rows()
    val log = t.dir.resolve("_delta_log")
    TableFiles.list(log).filter(_.contains("checkpoint"))
      .foreach(f => Files.delete(log.resolve(f)))
    DeltaLog.clearCache()
    assert(t.rows() === rows)
  }

  test("[O3] tombstone and entry carry the winner's file, the loser's time and data change") {
    val t = bothCommit(TableSpec(), delete(1), Seq(delete(2)))
    val c = t.replay.commits.last
    val winner = t.replay.commits(c.version.toInt - 1).adds.head
    assert(c.removes.map(_.key) === Seq(winner.key))
    Seq("size", "partitionValues", "modificationTime").foreach { k =>
      assert(c.adds.head.json.get(k) === winner.json.get(k), k)
    }
    assert(c.adds.head.dataChange && c.removes.head.dataChange)
    assert(c.removes.head.json.path("stats").asText() === """{"numRecords":10}""")
  }

  test("[trap 20] [O4] the entry has wide bounds, its row count and the bounds of the file") {
    val t = bothCommit(TableSpec(), delete(0), Seq(delete(9)))
    val stats = t.replay.live.head.stats
    assert(stats.path("numRecords").asLong() === 10)
    assert(!stats.path("tightBounds").asBoolean(true))
    assert(stats.path("minValues").path("id").asLong() === 0)
    assert(stats.path("maxValues").path("id").asLong() === 9)
  }

  test("[S77] [O4] a column of nulls keeps a null count that skips no row") {
    val nulls = TableSpec(files = Seq(
      "SELECT id, CAST(NULL AS BIGINT) AS n FROM range(10)",
      "SELECT id + 10 AS id, id AS n FROM range(10)"))
    val t = bothCommit(nulls, delete(1), Seq(delete(2)))
    assert(t.sql("SELECT id FROM {t} WHERE n IS NOT NULL").length === 10)
    assert(t.sql("SELECT id FROM {t} WHERE n IS NULL").length === 8)
  }

  test("[trap 20] [O4] statistics computed before the table had deletion vectors are kept") {
    val spec = TableSpec(deletionVectors = false)
    val t = table(spec)
    t.run(Statement.of("COMPUTE STATS")((s, name) => StatisticsCollection.recompute(
      s, DeltaLog.forTable(s, Statement.pathOf(name)), catalogTable = None)))
    t.run("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    val a = t.begin(delete(1))
    t.run(delete(2))
    t.commit(a)
    assertResolved(a, merged = 1, untouched = 0)
    assert(t.replay.live.head.stats.path("numRecords").asLong() === 10)
    t.check()
  }

  test("[O5] [O6] the merged vector is a file of its own in the table, read by stock as written") {
    val t = table(mixedFiles)
    val a = t.begin(delete(0, 1))
    t.run(delete(2, 3))
    t.commit(a)
    val dvs = t.replay.live.flatMap(_.dv)
    assert(dvs.map(_.storageType).distinct === Seq("u"))
    assert(dvs.map(_.pathOrInline).distinct.size === 1, "one file for all")
    assert(dvs.map(_.offset.get).min === 1)
    t.check()
  }

  test("[O7] the checksum of each version survives Delta's own verification") {
    withConf("spark.databricks.delta.incremental.commit.verify" -> "true",
        "spark.databricks.delta.versionChecksum.forcedValidationInterval" -> "0",
        "spark.databricks.delta.versionChecksum.forcedValidationMinTimeIntevalMinutes" -> "0") {
      val t = table(mixedFiles.ict)
      val a = t.begin(delete(0, 1))
      val b = t.begin(update(4))
      t.run(delete(2, 3))
      t.commit(a)
      t.commit(b)
      t.run(delete(7))
      t.check()
    }
  }

  test("[O8] commit info comes first, the version that was read and a later time than the winner's") {
    val t = table(TableSpec().ict)
    val a = t.begin(delete(1))
    val winner = t.run(delete(2)).version
    val loser = t.commit(a).version
    val Seq(w, l) = Seq(winner, loser).map(t.replay.commit(_).commitInfo): @unchecked
    assert(l.path("readVersion").asLong() === a.readVersion)
    assert(l.path("inCommitTimestamp").asLong() > w.path("inCommitTimestamp").asLong())
    assert(!l.path("isBlindAppend").asBoolean())
    t.check()
  }

  // O9: the history

  private def metrics(t: TestTable, names: String*): Seq[String] =
    names.map(t.replay.commits.last.metrics.getOrElse(_, "absent"))

  test("[trap 26] [O9] a merged DELETE's metrics count the vector it replaced") {
    val t = bothCommit(TableSpec(), delete(1, 3), Seq(delete(2)))
    assert(metrics(t, "numDeletedRows", "numDeletionVectorsAdded", "numDeletionVectorsRemoved",
      "numDeletionVectorsUpdated", "numRemovedFiles") === Seq("2", "1", "1", "1", "0"))
  }

  test("[trap 26] [O9] a DELETE that empties the file together with its winner removed a file") {
    val t = bothCommit(TableSpec(files = Seq(rows(0, 4))),
      "DELETE FROM {t} WHERE id < 2", Seq("DELETE FROM {t} WHERE id >= 2"))
    assert(metrics(t, "numDeletedRows", "numDeletionVectorsAdded", "numDeletionVectorsRemoved",
      "numDeletionVectorsUpdated", "numRemovedFiles") === Seq("2", "0", "1", "0", "1"))
  }

  test("[trap 26] [O9] a MERGE that empties the file together with its winner removed a file") {
    bothCommit(TableSpec(files = Seq(rows(0, 4))),
      "MERGE INTO {t} USING (SELECT id AS k FROM range(2)) s ON id = s.k WHEN MATCHED THEN DELETE",
      Seq("DELETE FROM {t} WHERE id >= 2"))
  }

  test("[trap 26] [O9] metrics of a MERGE that deletes, updates and inserts") {
    bothCommit(mixedFiles.after("DELETE FROM {t} WHERE id = 19"), """MERGE INTO {t} USING (
      SELECT * FROM VALUES (0, 'd'), (1, 'u'), (100, 'i') AS x(k, f)) s ON id = s.k
      WHEN MATCHED AND f = 'd' THEN DELETE WHEN MATCHED THEN UPDATE SET v = -1
      WHEN NOT MATCHED THEN INSERT (id, v) VALUES (k, -1)""",
      Seq(delete(2, 3)), merged = 2)
  }

  // O10: the change feed

  test("[trap 21] [O10] UPDATE and DELETE: the feed of each version is that of a serial run") {
    val t = table(mixedFiles.cdf)
    val a = t.begin("UPDATE {t} SET v = -1 WHERE id IN (0, 1)")
    val b = t.begin("DELETE FROM {t} WHERE id IN (4, 5)")
    t.run(delete(2, 3))
    t.commit(b)
    val v = t.commit(a).version
    val kinds = t.changes(v).map(_.split(',')(2))
    assert(kinds.count(_ == "update_preimage") === 2)
    assert(kinds.count(_ == "update_postimage") === 2)
    assert(kinds.size === 4)
    t.check()
  }

  test("[trap 21] [O10] the feed of an upsert with all kinds of change") {
    bothCommit(TableSpec().cdf, """MERGE INTO {t} USING (
      SELECT * FROM VALUES (0, 'd'), (1, 'u'), (100, 'i') AS x(k, f)) s ON id = s.k
      WHEN MATCHED AND f = 'd' THEN DELETE WHEN MATCHED THEN UPDATE SET v = -1
      WHEN NOT MATCHED THEN INSERT (id, v) VALUES (k, -1)""", Seq(delete(2)))
  }

  // O11: row tracking

  test("[trap 22] [O11] [S52] row ids, commit versions and the change feed after an UPDATE, with " +
      "in-commit timestamps") {
    val t = table(TableSpec().rowTracking.cdf.ict)
    val before = t.rows(columns = "id, _metadata.row_id").toSet
    val a = t.begin(update(1))
    t.run(delete(2))
    t.commit(a)
    assert(t.rows(columns = "id, _metadata.row_id").toSet === before - "[2,2]")
    t.check()
  }

  test("[trap 22] [O11] row ids of inserted rows are new and the high-water mark grows") {
    val t = table(TableSpec().rowTracking)
    def upsert(k: Int): Statement = s"MERGE INTO {t} USING (SELECT explode(array(1, $k)) AS k) s " +
      "ON id = s.k WHEN MATCHED THEN UPDATE SET v = -1 " +
      "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (k, -1)"
    val a = t.begin(upsert(100))
    t.run(delete(2))
    t.commit(a)
    t.run(upsert(101))
    val ids = t.rows(columns = "_metadata.row_id")
    assert(ids.distinct.size === ids.size)
    val marks = t.replay.commits.flatMap(_.actions).filter(_.has("domainMetadata"))
      .map(_.get("domainMetadata")).filter(_.path("domain").asText() == "delta.rowTracking")
      .map(d => LogReplay.parse(d.path("configuration").asText()))
      .map(_.path("rowIdHighWaterMark").asLong())
    assert(marks === marks.sorted.distinct)
    t.check()
  }

  // forms of descriptors, and of tables

  for (form <- Seq(RawCommits.Inline, RawCommits.Absolute, RawCommits.NoOffset)
      if form != RawCommits.NoOffset || DeltaCan.readDvWithoutOffset) {
    test(s"[trap 23] [S47] [O6] a base deletion vector that is $form, merged to one on disk") {
      val t = table()
      t.run(RawCommits.delete(Seq(9, 8), form))
      val a = t.begin(delete(1))
      t.run(delete(2))
      t.commit(a)
      assertResolved(a, merged = 1, untouched = 0)
      t.check(CheckOptions(compareMetrics = false))
    }

    test(s"[trap 23] a winner's deletion vector that is $form") {
      val t = table()
      val a = t.begin(delete(1))
      t.run(RawCommits.delete(Seq(9, 8), form))
      t.commit(a)
      assertResolved(a, merged = 1, untouched = 0)
      // The winner's form is its own; the merged one is on disk.
      assert(t.replay.live.flatMap(_.dv).map(d => (d.storageType, d.cardinality)) === Seq(("u", 3)))
      t.check(CheckOptions(compareMetrics = false))
    }
  }

  test("[S50] random prefixes: the merged file lies below one") {
    val t = bothCommit(TableSpec().withProperties("delta.randomizeFilePrefixes" -> "true",
      "delta.randomPrefixLength" -> "2"), delete(1), Seq(delete(2)))
    val dv = t.replay.live.head
    assert(t.dir.relativize(DvFiles.path(t.dir, dv).get).getNameCount === 2)
  }

  for (mode <- Seq("name", "id")) {
    test(s"[S51] column mapping by $mode: statistics keep their physical names") {
      val t = bothCommit(TableSpec().columnMapping(mode), delete(1), Seq(delete(2)))
      val c = t.replay.commits
      assert(c.last.adds.head.stats.path("minValues") ===
        c(c.size - 2).adds.head.stats.path("minValues"))
    }
  }

  test("[S76] a MERGE that adds a column commits beside a DELETE") {
    withConf("spark.databricks.delta.schema.autoMerge.enabled" -> "true") {
      RlcSession.withConf(RlcSession.off,
          "spark.databricks.delta.schema.autoMerge.enabled" -> "true") {
        val t = bothCommit(TableSpec(),
          "MERGE INTO {t} USING (SELECT 1L AS id, -1L AS v, 'n' AS note) s " +
          "ON {t}.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
          Seq(delete(2)))
        assert(t.rows().contains("[1,-1,n]"))
      }
    }
  }

  test("a table with spaces in its path, in the catalog") {
    val t = table()
    val other = Paths.get(t.dir.toString + " with space")
    TableFiles.copy(t.dir, other)
    spark.sql(s"CREATE TABLE rlc_named USING delta LOCATION '$other'")
    try {
      val named = new TestTable(TableSpec(), RlcSession.on, Some((other, "rlc_named")))
      val a = named.begin(delete(1))
      named.run(delete(2))
      named.commit(a)
      assertResolved(a, merged = 1, untouched = 0)
      named.check()
    } finally spark.sql("DROP TABLE rlc_named")
  }

  // other readers

  test("[O18] a stream over the table that skips change commits reads past a merged one") {
    val t = table(TableSpec())
    val a = t.begin(delete(1))
    t.run(delete(2))
    t.commit(a)
    t.run("INSERT INTO {t} VALUES (50, 500)")
    val seen = new java.util.concurrent.ConcurrentLinkedQueue[Long]
    val query = spark.readStream.format("delta").option("skipChangeCommits", "true")
      .option("startingVersion", a.readVersion + 1).load(t.dir.toString).writeStream
      .foreachBatch((df: org.apache.spark.sql.DataFrame, _: Long) =>
        df.collect().foreach(r => seen.add(r.getLong(0))))
      .option("checkpointLocation", t.dir.toString + "-stream")
      .trigger(org.apache.spark.sql.streaming.Trigger.AvailableNow()).start()
    query.awaitTermination()
    assert(seen.asScala.toSeq === Seq(50))
  }

  test("[O17] post-commit hooks see the merged actions: an auto compaction after the loser") {
    withConf("spark.databricks.delta.autoCompact.enabled" -> "true",
        "spark.databricks.delta.autoCompact.minNumFiles" -> "2",
        "spark.databricks.delta.autoCompact.earlySkipPartitionTable.enabled" -> "false",
        "spark.databricks.delta.autoCompact.modifiedPartitionsOnly.enabled" -> "false") {
      val t = table(mixedFiles)
      val a = t.begin(update(1))
      t.run(delete(3), RlcSession.off)
      val o = t.commit(a)
      assert(o.versions.size === 2)
      assert(t.replay.commits.last.operation === "OPTIMIZE")
      t.check(CheckOptions(oracle = false))
      assert(t.ids() === (0 until 20).filterNot(_ == 3))
    }
  }

  test("[S70] [O12] a commit with mixed data changes would be fatal in this session") {
    // The session checks it for every commit of every suite; see that it does.
    assert(spark.conf.get("spark.databricks.delta.commitValidation.consistentDataChange.mode") ===
      "fatal")
  }

  // O19
  test("[S73] [O19] Delta Kernel reads the same rows before and after a checkpoint") {
    assume(KernelReader.canRun)
    val t = bothCommit(mixedFiles.after("DELETE FROM {t} WHERE id = 19"),
      delete(0, 1), Seq(delete(2, 3)), merged = 2)
    assert(KernelReader.ids(t.dir.toString) === t.ids())
  }
}
