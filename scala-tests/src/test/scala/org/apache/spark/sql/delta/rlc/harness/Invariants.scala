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
package org.apache.spark.sql.delta.rlc.harness

import java.nio.file.Files

import scala.jdk.CollectionConverters._

import org.scalatest.Assertions._

import org.apache.spark.sql.delta.DeltaLog

/**
 * What of the pack applies to a test.
 *
 * @param oracle whether the statements can be run again in commit order on a copy
 * @param ignoreMetrics operation metrics that a serial run cannot be expected to share
 * @param compareMetrics whether operation metrics of the serial run must be the same
 * @param compareRowIds whether row ids of the serial run must be the same
 * @param cold whether to read again without any cache, after a checkpoint
 * @param checksums whether every writer lived to write its version's checksum file
 */
final case class CheckOptions(
    oracle: Boolean = true,
    ignoreMetrics: Set[String] = Set.empty,
    compareMetrics: Boolean = true,
    compareRowIds: Boolean = true,
    cold: Boolean = true,
    checksums: Boolean = true)

object CheckOptions {
  /** When the loser failed the table is Delta's own work: enough to see that it is unharmed. */
  val winnersOnly: CheckOptions = CheckOptions(oracle = false, cold = false)
}

/** O1 to O19 of the rules as far as they can be seen without running the statements again. */
object Invariants {

  def check(t: TestTable, options: CheckOptions): Unit = {
    val replay = t.replay
    replay.commits.zip(replay.states).foreach { case (c, after) =>
      val before = replay.states.lift(c.version.toInt - 1).getOrElse(Map.empty)
      withClue(s"version ${c.version} (${c.operation}): ") {
        liveEntries(c, before, after)
        if (c.version > t.initialVersion) {
          actions(t, c)
          if (options.checksums) checksum(t, c, after)
        }
      }
    }
    commitInfo(t, replay)
    deletionVectors(t, replay)
    snapshot(t, replay, options)
  }

  /** O1, O2: one live entry a path, tombstones name what was live, nothing added and removed. */
  private def liveEntries(
      c: LogCommit,
      before: Map[(String, Option[String]), FileEntry],
      after: Map[(String, Option[String]), FileEntry]): Unit = {
    val twice = after.keys.groupBy(_._1).collect { case (p, keys) if keys.size > 1 => p }
    assert(twice.isEmpty, "paths with two live entries")
    c.removes.foreach { r =>
      assert(before.contains(r.key),
        s"the tombstone names ${r.key}, live was ${before.keys.filter(_._1 == r.path)}")
    }
    assert(c.adds.map(_.key).intersect(c.removes.map(_.key)).isEmpty, "added and removed")
    assert(c.adds.map(_.path).distinct.size === c.adds.size, "one add a path")
    assert(c.removes.map(_.path).distinct.size === c.removes.size, "one remove a path")
  }

  /** O3, O4, O6, O12: fields of the file actions. */
  private def actions(t: TestTable, c: LogCommit): Unit = {
    assert(c.actions.head.has("commitInfo") || !c.actions.exists(_.has("commitInfo")),
      "commitInfo is not the first action")
    val changes = (c.adds ++ c.removes).map(_.dataChange).distinct
    assert(changes.size <= 1, "dataChange differs inside one commit")
    c.removes.foreach { r =>
      assert(r.size >= 0, s"size of the tombstone of ${r.path}")
      assert(r.json.path("deletionTimestamp").asLong() > 0, s"deletionTimestamp of ${r.path}")
      assert(r.json.path("extendedFileMetadata").asBoolean(), s"extendedFileMetadata of ${r.path}")
      assert(r.json.has("partitionValues"), s"partitionValues of ${r.path}")
    }
    c.adds.filter(_.dv.nonEmpty).foreach { a =>
      val rows = a.stats.path("numRecords").asLong(-1)
      assert(rows >= 0, s"numRecords of ${a.path}, which has a DV")
      if (c.operation != "RESTORE") {
        assert(!a.stats.path("tightBounds").asBoolean(true), s"bounds of ${a.path} are tight")
      }
      assert(a.dv.get.cardinality < rows || c.operation != "DELETE",
        s"${a.path} has no row left and is still live")
    }
    t.history.find(_._2.versions.contains(c.version)).foreach { case (s, _) =>
      val raced = c.adds.filter(a => c.removes.exists(_.path == a.path)).flatMap(_.dv)
      if (!Set("RESTORE", "Manual Update", RawCommits.operation.name)(c.operation)) {
        raced.foreach(dv => assert(dv.storageType === "u", s"storage of the DV written by [$s]"))
      }
    }
  }

  /** O8: one commitInfo each, in-commit timestamps grow. */
  private def commitInfo(t: TestTable, replay: LogReplay): Unit = {
    val times = replay.commits.map(_.commitInfo.path("inCommitTimestamp").asLong(-1)).filter(_ >= 0)
    assert(times === times.sorted.distinct, "in-commit timestamps")
    replay.commits.filter(_.version > t.initialVersion).foreach { c =>
      val level = c.commitInfo.path("isolationLevel").asText("Serializable")
      val expected =
        if (t.spec.writeSerializable) Set("WriteSerializable", "SnapshotIsolation")
        else Set("Serializable", "SnapshotIsolation")
      assert(expected(level), s"isolation level of version ${c.version}")
    }
  }

  /** O5, O16: every DV that is live at any version is on disk as the log describes it. */
  private def deletionVectors(t: TestTable, replay: LogReplay): Unit = {
    val all = replay.states.drop(t.initialVersion.toInt).flatMap(_.values)
    all.filter(_.dv.nonEmpty).groupBy(_.key).values.map(_.head).foreach { e =>
      val positions = DvFiles.positions(t.dir, e)
      val rows = e.stats.path("numRecords").asLong(-1)
      if (rows >= 0) assert(positions.forall(p => p >= 0 && p < rows), s"positions of ${e.path}")
    }
  }

  /** O7: the checksum file of a version against the replay of the log. */
  private def checksum(
      t: TestTable, c: LogCommit, live: Map[(String, Option[String]), FileEntry]): Unit = {
    val file = t.dir.resolve("_delta_log").resolve(f"${c.version}%020d.crc")
    // RESTORE commits by a way of its own, which writes none.
    if (c.operation == "RESTORE" && !Files.exists(file)) return
    assert(Files.exists(file), "no checksum file")
    val crc = LogReplay.parse(new String(Files.readAllBytes(file), "UTF-8"))
    assert(crc.path("numFiles").asLong() === live.size, "numFiles of the checksum")
    assert(crc.path("tableSizeBytes").asLong() === live.values.map(_.size).sum, "tableSizeBytes")
    if (crc.has("numDeletionVectorsOpt")) {
      assert(crc.path("numDeletionVectorsOpt").asLong() === live.values.count(_.dv.nonEmpty),
        "numDeletionVectorsOpt")
      assert(crc.path("numDeletedRecordsOpt").asLong() ===
        live.values.flatMap(_.dv).map(_.cardinality).sum, "numDeletedRecordsOpt")
    }
    if (crc.has("allFiles")) {
      val files = crc.get("allFiles").elements().asScala.map(LogReplay.entry).toSeq
      assert(files.map(_.key).toSet === live.keySet, "allFiles of the checksum")
      files.foreach { f =>
        val logged = live(f.key)
        val fields =
          Seq("stats", "baseRowId", "defaultRowCommitVersion", "size", "modificationTime")
        fields.foreach { k =>
          val a = f.json.path(k); val b = logged.json.path(k)
          assert(a.asText("") === b.asText(""), s"$k of ${f.path} in the checksum")
        }
      }
    }
    Option(c.commitInfo.get("txnId")).foreach { id =>
      assert(crc.path("txnId").asText() === id.asText(), "txnId of the checksum")
    }
  }

  /** O4, O7, O14: cold snapshot, data skipping, checkpoint. */
  private def snapshot(t: TestTable, replay: LogReplay, options: CheckOptions): Unit = {
    val live = replay.live
    val expected = new LocalReader(t.dir, replay).rows(replay.commits.last.version)
    assert(t.rows(on = t.session) === expected, "rows of a read in the session of the statements")
    assert(expected.size === live.map(f =>
      f.stats.path("numRecords").asLong(-1) - f.dv.fold(0L)(_.cardinality)).sum,
      "rows by statistics")
    if (options.cold) coldReads(t, live, expected)
  }

  private def coldReads(t: TestTable, live: Seq[FileEntry], expected: Seq[String]): Unit = {
    val session = RlcSession.off
    // The checkpoint is of the cold replay of the log, the read after it is of the checkpoint.
    DeltaLog.clearCache()
    val log = DeltaLog.forTable(session, t.dir.toString)
    log.checkpoint(log.update())
    DeltaLog.clearCache()
    val s = DeltaLog.forTable(session, t.dir.toString).update()
    assert(s.version === t.version)
    s.validateChecksum()
    val files = s.allFiles.collect()
    assert(files.map(f => (f.path, Option(f.deletionVector).map(_.uniqueId))).toSet ===
      live.map(_.key).toSet, "files of a cold snapshot")
    assert(files.length === live.size, "number of files of a cold snapshot")
    assert(t.rows(on = session) === expected, "rows of a cold read")
    if (expected.nonEmpty && s.schema.fieldNames.headOption.contains("id")) {
      // A predicate on a column with statistics skips files; it must not skip rows.
      val ids = expected.map(_.drop(1).takeWhile(c => c != ',' && c != ']'))
        .filter(_ != "null").map(_.toLong).sorted
      if (ids.nonEmpty) {
        val pivot = ids(ids.size / 2)
        val found = session.sql(s"SELECT id FROM ${t.name} WHERE id >= $pivot").collect()
        assert(found.map(_.getLong(0)).sorted.toSeq === ids.filter(_ >= pivot),
          "rows of a query with data skipping")
      }
    }
  }
}
