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

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}

import scala.jdk.CollectionConverters._

import io.delta.exceptions.ConcurrentAppendException

import org.apache.spark.sql.delta.DeltaLog
import org.apache.spark.sql.delta.rlc.harness._

/** What happens to a table with merged commits later in its life. */
class LifecycleSuite extends RowLevelTest {
  import TableSpec._

  private def delete(ids: Int*): Statement =
    s"DELETE FROM {t} WHERE id IN (${ids.mkString(", ")})"

  /** A base vector, a winner, a loser of two passes, a loser that failed: orphans of each kind. */
  private def raced(spec: TableSpec = mixedFiles): TestTable = {
    val t = table(spec.after("DELETE FROM {t} WHERE id IN (18, 19)"))
    val a = t.begin(delete(0, 1))
    val b = t.begin(delete(2, 5))
    t.run(delete(2, 3))
    a.afterPass(1)(t.run(delete(4)))
    t.commit(a)
    t.conflict[ConcurrentAppendException](b)
    assert(t.ids() === Seq(5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17))
    t
  }

  private def liveDvs(t: TestTable): Set[String] = t.dvFiles(t.replay.live)

  private def dvs(t: TestTable): Set[String] =
    TableFiles.dvFiles(t.dir).filterNot(f => Paths.get(f).getFileName.toString.startsWith("."))

  test("[S71] [trap 25] [O13] VACUUM keeps the live vectors and takes every orphan") {
    val t = raced()
    val rows = t.rows()
    assert((dvs(t) -- liveDvs(t)).nonEmpty, "no orphan to take")
    t.sql("VACUUM {t} RETAIN 0 HOURS")
    assert(dvs(t) === liveDvs(t))
    DeltaLog.clearCache()
    assert(t.rows(on = RlcSession.off) === rows)
  }

  test("[S71] [O13] VACUUM LITE takes what tombstones name and leaves orphans") {
    val t = raced()
    val rows = t.rows()
    val named = t.dvFiles(t.replay.commits.flatMap(c => c.adds ++ c.removes))
    val orphans = dvs(t) -- named
    assert(orphans.nonEmpty)
    t.sql("VACUUM {t} LITE RETAIN 0 HOURS")
    assert(orphans.subsetOf(dvs(t)))
    assert(liveDvs(t).subsetOf(dvs(t)))
    assert(t.rows(on = RlcSession.off) === rows)
  }

  test("[O13] [O16] time travel to the winner and to the loser works until VACUUM") {
    val t = raced()
    val n = t.version
    assert(t.ids(Some(n)).size === 13)
    assert(t.ids(Some(n - 1)) === (0 until 18).filterNot(Set(2, 3, 4)))
    assert(t.ids(Some(n - 2)) === (0 until 18).filterNot(Set(2, 3)))
  }

  test("[S72] [O14] RESTORE to the winner's version and back to the loser's") {
    val t = table()
    val a = t.begin(delete(1))
    val winner = t.run(delete(2)).version
    val loser = t.commit(a).version
    t.run(s"RESTORE TABLE {t} TO VERSION AS OF $winner")
    assert(t.ids() === Seq(0, 1, 3, 4, 5, 6, 7, 8, 9))
    t.run(s"RESTORE TABLE {t} TO VERSION AS OF $loser")
    assert(t.ids() === Seq(0, 3, 4, 5, 6, 7, 8, 9))
    t.check()
  }

  test("[O15] a shallow clone of a merged table, and a race on the clone") {
    val t = raced()
    val clone = Paths.get(t.dir.toString + "-clone")
    spark.sql(s"CREATE TABLE delta.`$clone` SHALLOW CLONE ${t.name}").collect()
    val c = new TestTable(TableSpec(), RlcSession.on, Some((clone, s"delta.`$clone`")))
    assert(c.rows() === t.rows())
    // Base vectors are absolute now, the merged one lies under the clone.
    val a = c.begin(delete(6))
    c.run(delete(8))
    c.commit(a)
    assertResolved(a, merged = 1, untouched = 0)
    assert(c.ids() === Seq(5, 7, 9, 10, 11, 12, 13, 14, 15, 16, 17))
    assert(DvFiles.path(clone, c.replay.commits.last.adds.head).get.startsWith(clone))
    c.check(CheckOptions(oracle = false))
  }

  test("[S73] [O14] a V2 checkpoint after a race") {
    val t = raced(mixedFiles.withProperties("delta.checkpointPolicy" -> "v2"))
    t.check()
  }

  test("[S73] [O14] a checkpoint between the versions of a race") {
    val t = table()
    val a = t.begin(delete(1))
    t.run(delete(2))
    val log = DeltaLog.forTable(spark, t.dir.toString)
    log.checkpoint(log.update())
    t.commit(a)
    t.check()
  }

  test("[O14] a log compaction over the versions of a race") {
    val t = raced()
    val replay = t.replay
    val range = replay.commits.filter(_.version >= 1)
    // The last action of each (path, DV id) in the range, as the protocol describes the file.
    val last = range.flatMap(c => c.actions.filter(a => a.has("add") || a.has("remove")))
      .groupBy { a =>
        val e = if (a.has("add")) a.get("add") else a.get("remove")
        (e.get("path").asText(), Option(e.get("deletionVector")).map(d =>
          d.get("pathOrInlineDv").asText() + d.path("offset").asText()))
      }.values.map(_.last)
    Files.write(
      t.dir.resolve("_delta_log").resolve(f"${1}%020d.${t.version}%020d.compacted.json"),
      last.map(_.toString).mkString("", "\n", "\n").getBytes(UTF_8))
    DeltaLog.clearCache()
    val snapshot = DeltaLog.forTable(RlcSession.off, t.dir.toString).update()
    assert(snapshot.logSegment.deltas.exists(_.getPath.getName.contains("compacted")))
    assert(t.rows(on = RlcSession.off) ===
      new LocalReader(t.dir, replay).rows(t.version))
  }

  test("[O14] the next statements after a race find a table like any other") {
    val t = raced()
    t.run("UPDATE {t} SET v = v + 1 WHERE id IN (5, 6)")
    t.run("MERGE INTO {t} USING (SELECT explode(array(7, 100)) AS k) s ON id = s.k " +
      "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, v) VALUES (k, -1)")
    t.run("OPTIMIZE {t}")
    t.run("REORG TABLE {t} APPLY (PURGE)")
    t.check()
  }

  test("[trap 26] DESCRIBE HISTORY and DESCRIBE DETAIL tell of both statements") {
    val t = raced()
    val history = t.sql("DESCRIBE HISTORY {t}")
    assert(history.map(_.getAs[String]("operation")).take(3).toSeq === Seq.fill(3)("DELETE"))
    val metrics = history.head.getAs[Map[String, String]]("operationMetrics")
    assert(metrics("numDeletedRows") === "2")
    assert(t.sql("DESCRIBE DETAIL {t}").head.getAs[Long]("numFiles") === 2)
  }

  test("the log of a merged commit has nothing that a stock commit has not") {
    val ours = raced().replay.commits.last
    val t = new TestTable(mixedFiles, RlcSession.off)
    t.run(delete(0, 1))
    val stock = t.replay.commits.last
    def keys(c: LogCommit): Set[String] = c.actions.flatMap { a =>
      a.properties().asScala.flatMap(e => e.getValue.properties().asScala
        // An empty map says what an absent one says.
        .filterNot(f => f.getValue.isObject && f.getValue.isEmpty)
        .map(f => s"${e.getKey}.${f.getKey}"))
    }.toSet
    // The one difference a base vector makes: the tombstone names it.
    assert(keys(ours) -- keys(stock) === Set("remove.deletionVector"))
  }
}
