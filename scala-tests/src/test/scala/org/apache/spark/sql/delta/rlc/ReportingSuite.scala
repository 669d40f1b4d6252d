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

import java.nio.file.Files
import java.util.Properties
import java.util.concurrent.{Callable, CyclicBarrier, Executors}

import scala.jdk.CollectionConverters._

import io.delta.exceptions.ConcurrentAppendException
import io.github.deltarlc.Refusal

import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.metrics.MetricsSystem
import org.apache.spark.metrics.sink.PrometheusServlet
import org.apache.spark.sql.delta.DeltaOperations
import org.apache.spark.sql.delta.rlc.RowLevelConcurrencyConf.Settings
import org.apache.spark.sql.delta.rlc.harness._
import org.apache.spark.sql.delta.rlc.storage.SyntheticTable
import org.apache.spark.sql.delta.util.JsonUtils

/** What people see of a resolution: metrics, log, event and exception; and the dry run. */
class ReportingSuite extends RowLevelTest {
  import TableSpec._

  private val dryRun = "spark.databricks.delta.rowLevelConcurrency.dryRun"

  private def delete(ids: Int*): Statement =
    s"DELETE FROM {t} WHERE id IN (${ids.mkString(", ")})"

  private def source: RowLevelMetrics = {
    RlcSession.on.sql("SELECT 1").collect() // the extension registers it with the first plan
    val found = SparkEnv.get.metricsSystem.getSourcesByName("rowLevelConcurrency")
    assert(found.size === 1)
    found.head.asInstanceOf[RowLevelMetrics]
  }

  private def values: Map[String, Long] = {
    val registry = source.metricRegistry
    (registry.getCounters.asScala ++ registry.getTimers.asScala).map { case (name, metric) =>
      name -> metric.getCount
    }.toMap
  }

  /** What changed in the metrics while `body` ran. */
  private def counted(body: => Unit): Map[String, Long] = {
    val before = values
    body
    values.map { case (name, value) => name -> (value - before(name)) }.filter(_._2 != 0)
  }

  /** The text of a conflict without what differs from table to table. */
  private def masked(e: Throwable): String =
    s"${e.getClass.getName}: ${e.getMessage}"
      .replaceAll("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "U")
      .replaceAll("\\d+", "N")

  /** Our reasons; Spark suppresses stack traces of its own beside them. */
  private def reasons(e: Throwable): Seq[String] =
    e.getSuppressed.toSeq.collect { case ours: NotReconciled => ours.getMessage }

  /** How stock Delta ends the race. */
  private def stock(spec: TableSpec, loser: Statement, winner: Statement): Throwable = {
    val t = new TestTable(spec, RlcSession.off)
    val a = t.begin(loser)
    t.run(winner)
    a.finish().error.get
  }

  test("a merge is counted, and nothing is with the feature off") {
    val t = table(mixedFiles)
    val a = t.begin(delete(0, 2))
    t.run(delete(4))
    val changed = counted(t.commit(a))
    val r = lastResolution(a)
    assert(r.ownRows === 2 && r.unionRows === 3)
    assert(changed === Map("resolved" -> 1L, "filesMerged" -> 1L, "rowsMerged" -> 2L,
      "dvBytesRead" -> r.bytesRead, "dvBytesWritten" -> r.bytesWritten, "resolutionTime" -> 1L))
    assert(counted(stock(mixedFiles, delete(0, 2), delete(4))) === Map.empty)
  }

  test("files removed whole and files let pass are counted") {
    val t = table(mixedFiles)
    val evens = (0 to 8).map(2 * _)
    val a = t.begin(delete(evens.take(8): _*))
    t.run(delete(evens.drop(8) ++ Seq(18, 1): _*))
    val changed = counted(t.commit(a))
    assert(changed.filter(_._1.startsWith("files")) === Map("filesRemoved" -> 1L, "filesUntouched" -> 1L))
    assert(changed("rowsMerged") === 8 && lastResolution(a).unionRows === 10)
  }

  // One conflict for each reason that takes no damage to a file.
  private val conflicts: Seq[(String, TableSpec, Statement, Statement)] = Seq(
    ("overlap", TableSpec(), delete(1, 2, 3), delete(2, 3, 4)),
    ("notAnExtension", twoFiles, delete(1), "OPTIMIZE {t}"),
    ("newFiles", TableSpec(), delete(1), "UPDATE {t} SET v = -1 WHERE id = 2"),
    ("contentRead", TableSpec(),
      "UPDATE {t} SET v = (SELECT sum(v) FROM {t}) WHERE id = 1", delete(2)),
    ("notEligible", TableSpec(), "DELETE FROM {t} WHERE id >= 0 AND v >= 0", delete(2)),
    ("notEligible", TableSpec(deletionVectors = false), delete(1), delete(2)),
    ("other", TableSpec(), delete(1), "ALTER TABLE {t} SET TBLPROPERTIES ('some' = 'thing')"))

  conflicts.foreach { case (reason, spec, loser, winner) =>
    lazy val onStock = masked(stock(spec, loser, winner))
    Seq(false, true).foreach { dry =>
      test(s"an abort counts as $reason${if (dry) " in a dry run" else ""}: [$loser], [$winner]" +
          (if (spec.deletionVectors) "" else ", no deletion vectors")) {
        withConf(dryRun -> dry.toString) {
          val t = table(spec)
          val a = t.begin(loser)
          t.run(winner)
          val files = TableFiles.list(t.dir)
          var error: Throwable = null
          val changed = counted { error = a.finish().error.get }
          val prefix = if (dry) "dryRun." else ""
          assert(changed.filter(_._1.contains("abort")) === Map(s"${prefix}aborted.$reason" -> 1L))
          assert(!changed.contains("resolved") && !changed.contains("dryRun.resolved"))
          assert(masked(error) === onStock, "class and text are Delta's")
          assert(TableFiles.list(t.dir) === files)
          // A dry run does not even say why; otherwise a refusal does.
          val why = reasons(error)
          if (dry) assert(why.isEmpty)
          a.resolutions.foreach { r =>
            assert(r.abortReason.contains(reason) && r.dryRun === dry)
            assert(dry || why.size === r.refusals.size)
          }
          assert(a.resolutions.size === (if (spec.deletionVectors) 1 else 0))
        }
      }
    }
  }

  test("[P5] the exception names the file and how many rows; log and event say so too") {
    val t = table()
    val a = t.begin(delete(1, 2, 3))
    t.run(delete(2, 3, 4))
    var error: Throwable = null
    val lines = LogLines.during(classOf[RowLevelTransaction]) {
      error = t.conflict[ConcurrentAppendException](a)
    }
    val path = t.replay.live.head.path
    val why = s"P5 [$path]: both sides changed 2 of the same rows, the first at position 2"
    assert(reasons(error) === Seq(s"not reconciled, $why"))
    val line = lines.filter(_.startsWith("Row-level concurrency on "))
    assert(line.size === 1)
    assert(line.head.contains(s"${t.dir}: versions 1 to 1 conflict (overlap) in pass 1; 0 files"))
    assert(line.head.endsWith(s"refused: $why"))
    val event = JsonUtils.toJson(lastResolution(a))
    assert(event.contains("\"abortReason\":\"overlap\"") && event.contains(path))
  }

  test("a merge is one line of the log") {
    val t = table()
    val a = t.begin(delete(1, 3))
    t.run(delete(2))
    val lines = LogLines.during(classOf[RowLevelTransaction])(t.commit(a))
    val r = lastResolution(a)
    val ours = lines.filter(_.startsWith("Row-level concurrency on "))
    assert(ours.size === 1)
    assert(ours.head.contains(s"${t.dir}: versions 1 to 1 resolved in pass 1; 1 files merged, 0 " +
      "removed whole, 0 untouched, 2 rows of this statement in a union of 3, " +
      s"2 deletion vectors (${r.bytesRead} bytes) read, ${r.bytesWritten} bytes written, "))
    assert(ours.head.matches(".* \\d+\\.\\d ms; nothing refused"))
  }

  test("an abort after a rebase is counted as such") {
    val t = table()
    val a = t.begin(delete(1))
    t.run(delete(2))
    a.afterPass(1)(t.run(delete(1)))
    val changed = counted(t.conflict[ConcurrentAppendException](a))
    assert(changed("resolved") === 1)
    assert(changed.filter(_._1.contains("abort")) ===
      Map("aborted.overlap" -> 1L, "abortedAfterRebase" -> 1L))
  }

  test("every rule of the table counts as something, and what costs most to overlook comes first") {
    RuleTable.all.foreach(rule => assert(RuleTable.countedAs(rule.id) === rule.countedAs))
    def reason(rules: String*): String = AbortReason.of(
      rules.map(Refusal(_, None, "")), new RuntimeException).name
    assert(reason("P5", "CODEC") === "decode")
    assert(reason("CODEC", "P5", "IO") === "io")
    assert(reason("P1", "BUDGET") === "budget")
    assert(reason("P1", "P5") === "overlap")
    assert(reason() === "other")
  }

  // ---- the metrics system

  test("Prometheus sees the metrics") {
    val properties = new Properties
    properties.setProperty("path", "/metrics/prometheus")
    val page = new PrometheusServlet(properties, source.metricRegistry).getMetricsSnapshot()
    Seq("resolved", "aborted_overlap", "abortedAfterRebase", "filesMerged", "dryRun_resolved",
        "resolutionTime").foreach { name =>
      assert(page.linesIterator.exists(_.matches(s"metrics_${name}_Count\\{type=.*} \\d+")), page)
    }
  }

  test("each SparkContext has one source of its own, however many sessions and threads ask") {
    def system(): MetricsSystem = MetricsSystem.createMetricsSystem("driver", new SparkConf(false))
    val first = system()
    val threads = 8
    val together = new CyclicBarrier(threads)
    val pool = Executors.newFixedThreadPool(threads)
    val sources =
      try {
        pool.invokeAll(Seq.fill[Callable[RowLevelMetrics]](threads) { () =>
          together.await()
          RowLevelMetrics.of(first)
        }.asJava).asScala.map(_.get())
      } finally pool.shutdownNow()
    assert(sources.distinct.size === 1)
    assert(first.getSourcesByName(RowLevelMetrics.NAME) === sources.take(1))
    sources.head.recordAbort(AbortReason.Overlap, dryRun = false)
    val next = RowLevelMetrics.of(system())
    assert(next ne sources.head)
    assert(next.metricRegistry.getCounters.values.asScala.forall(_.getCount === 0))
  }

  // ---- the dry run

  private def dryRuns(enabled: Boolean): Unit = withConf(
      RlcSession.flag -> enabled.toString, dryRun -> "true") {
    val t = table(mixedFiles)
    val a = t.begin(delete(0, 2))
    t.run(delete(4, 1))
    val files = TableFiles.list(t.dir)
    var error: Throwable = null
    val changed = counted { error = t.conflict[ConcurrentAppendException](a) }
    assert(TableFiles.list(t.dir) === files, "a dry run writes nothing")
    assert(masked(error) === masked(stock(mixedFiles, delete(0, 2), delete(4, 1))))
    assert(reasons(error).isEmpty)
    val r = lastResolution(a)
    assert(r.dryRun && r.rebased && r.dvFilesWritten.isEmpty)
    assert(changed === Map("dryRun.resolved" -> 1L, "dryRun.filesMerged" -> 1L,
      "dryRun.filesUntouched" -> 1L, "dryRun.rowsMerged" -> 2L,
      "dryRun.dvBytesRead" -> r.bytesRead, "dryRun.resolutionTime" -> 1L))
    t.check(CheckOptions.winnersOnly)
  }

  test("a dry run merges nothing and counts what it would have") {
    dryRuns(enabled = true)
  }

  test("a dry run needs no other flag") {
    dryRuns(enabled = false)
  }

  test("a dry run changes nothing for a statement without a conflict") {
    withConf(dryRun -> "true") {
      val t = table(partitioned)
      val a = t.begin("DELETE FROM {t} WHERE p = 0 AND id = 1")
      t.run("DELETE FROM {t} WHERE p = 1 AND id = 6")
      val changed = counted(t.commit(a))
      assert(changed === Map.empty && a.resolutions.isEmpty)
      t.check()
    }
  }

  test("[G12] a dry run looks at all winners since the read, as the passes of a merge would") {
    withConf(dryRun -> "true") {
      val t = table(TableSpec().ws)
      val a = t.begin(delete(1))
      t.run("INSERT INTO {t} VALUES (100, 1)")
      // Passes the append, as stock does, and meets a DELETE when it writes once more.
      HookedLogStore.beforeWriting(t.version + 1) {
        Running.onFreshThread(RlcSession.off, "the second winner")(t.run(delete(2, 100), RlcSession.off))
      } {
        val changed = counted(a.finish().error.get)
        assert(changed.filter(_._1.contains("abort")) === Map("dryRun.aborted.contentRead" -> 1L))
      }
      val r = lastResolution(a)
      assert(r.refusals.map(_.rule) === Seq("G12"))
      assert(r.lastWinner - r.firstWinner === 1)
    }
  }

  test("a dry run only reads, and within the limits of a merge") {
    withConf(ProbedFileSystem.options: _*) {
      def operations(maxDvBytes: Long): Set[String] = {
        val (t, commit) = dryRace(Settings(60000L, maxDvBytes, dryRun = true))
        val (conflict, calls) = ProbedFileSystem.watch()(intercept[ConcurrentAppendException](commit()))
        assert(reasons(conflict).isEmpty)
        assert(t.deleted().values.forall(_ === Seq(2L)))
        calls.map(_.operation).toSet
      }
      assert(operations(maxDvBytes = 1L << 20) === Set("open", "status", "read"))
      assert(operations(maxDvBytes = 1L) === Set.empty)
    }
  }

  test("a dry run that fails itself ends in the same conflict") {
    Seq(new IllegalStateException("bad luck"), new NoSuchMethodError("of another Delta")).foreach { e =>
      val (_, commit) = dryRace(Settings(60000L, 1L << 20, dryRun = true))
      ResolutionPolicy.withMutant(new ResolutionPolicy {
        override def enforces(ruleId: String): Boolean = throw e
      })(intercept[ConcurrentAppendException](commit()))
    }
  }

  /** Two DELETEs of other rows of the same files; the second is still to commit. */
  private def dryRace(settings: Settings): (SyntheticTable, () => Unit) = {
    val dir = Files.createTempDirectory(RlcSession.root, "dry")
    val t = new SyntheticTable(RlcSession.on, dir, fileCount = 3, rows = 100L)
    val loser = t.startLoser(settings)
    val actions = t.prepare(loser, t.files.map(_ -> Seq(1L)).toMap)
    t.delete(t.files.map(_ -> Seq(2L)).toMap)
    (t, () => loser.commit(actions, DeltaOperations.ManualUpdate))
  }
}
