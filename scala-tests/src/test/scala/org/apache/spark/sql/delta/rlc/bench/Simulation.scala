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
package org.apache.spark.sql.delta.rlc.bench

import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.apache.logging.log4j.Level
import org.apache.logging.log4j.core.config.Configurator

import org.apache.spark.sql.delta.commands.MergeIntoCommand
import org.apache.spark.sql.delta.rlc.harness.{RlcSession, TableFiles}
import org.apache.spark.sql.delta.util.JsonUtils

/**
 * A team's own mix of statements, as the JSON file says it; what is left out is as here.
 *
 * @param writers jobs that write at the same time
 * @param statements of each writer, one after the other
 * @param mix how often each kind comes, relative to the others: `delete`, `update`, `upsert`,
 *            `mergeDelete`, `insert`
 * @param partitions of the table; each statement names one
 * @param filesPerPartition data files in each of them
 * @param rowsPerFile rows of each
 * @param rowsPerStatement how many rows a statement changes or adds
 * @param overlap probability that a statement takes rows which all writers take, and not its own
 * @param rounds how often both sides run, in turn
 * @param seed of the random choices; both sides run the same statements
 */
final case class Mix(
    writers: Int = 4,
    statements: Int = 5,
    mix: Map[String, java.lang.Double] = Map("delete" -> 2.0, "upsert" -> 1.0),
    partitions: Int = 1,
    filesPerPartition: Int = 4,
    rowsPerFile: Long = 100000L,
    rowsPerStatement: Int = 10,
    overlap: Double = 0.0,
    rounds: Int = 1,
    seed: Long = 1L) {

  Seq(writers, statements, partitions, filesPerPartition, rowsPerStatement, rounds).foreach { n =>
    require(n > 0, s"$n: counts must be positive")
  }
  require(overlap >= 0 && overlap <= 1, s"overlap = $overlap is not a probability")
  mix.keys.find(!Mix.kinds.contains(_)).foreach { kind =>
    throw new IllegalArgumentException(s"no kind $kind, there are ${Mix.kinds.mkString(", ")}")
  }

  /** The kinds with their weights, in a fixed order. */
  def weights: Seq[(String, Double)] = mix.toSeq.map { case (k, w) => (k, w.doubleValue) }.sorted

  require(weights.forall(_._2 >= 0) && weights.exists(_._2 > 0), s"the weights $mix")

  def rowsPerPartition: Long = filesPerPartition * rowsPerFile

  require(rowsPerPartition > 2L * Mix.hotRows * writers,
    s"$rowsPerPartition rows in a partition are too few for $writers writers")
}

object Mix {
  val kinds: Seq[String] = Seq("delete", "update", "upsert", "mergeDelete", "insert")

  /** Rows of each partition that all writers take when they overlap. */
  val hotRows: Int = 20

  /** The mix in a JSON file; fails on a field that there is not. */
  def read(file: Path): Mix = {
    val json = JsonUtils.mapper.readTree(Files.readAllBytes(file))
    val fields = Mix().productElementNames.toSeq
    json.fieldNames().asScala.find(!fields.contains(_)).foreach { name =>
      throw new IllegalArgumentException(s"no field $name, there are ${fields.mkString(", ")}")
    }
    JsonUtils.mapper.treeToValue(json, classOf[Mix])
  }
}

/**
 * Runs a mix on stock Delta with retry and with merging, and leaves what happened in
 * build/simulate for docs/simulate.py to plot.
 *
 * Arguments: the JSON file with the mix.
 */
object Simulation {

  def main(args: Array[String]): Unit = {
    val mix = Mix.read(Paths.get(args(0)))
    RlcSession.generateCode()
    // Logs the conflicts of a MERGE, which are what is counted here, with their stack traces.
    Configurator.setLevel(classOf[MergeIntoCommand].getName, Level.OFF)
    val small = Mix(writers = 2, statements = 1, filesPerPartition = 1, rowsPerFile = 1000)
    Seq(false, true).foreach(run(small, _)) // warms up the JVM and Spark
    val outcomes = Seq.fill(mix.rounds)(Seq("stock" -> false, "merging" -> true)).flatten.map {
      case (side, merging) =>
        val outcome = run(mix, merging)
        println(f"$side%-8s ${outcome.attempts}%5d attempts, ${outcome.conflicts.values.sum}%5d " +
          f"conflicts, ${outcome.merges}%5d merges, ${outcome.millis / 1000}%8.1f s")
        side -> outcome
    }
    val dir = BenchReport.directory.resolveSibling("simulate")
    Files.createDirectories(dir)
    val result = Map("mix" -> mix, "runs" -> outcomes.map { case (side, outcome) =>
      Map("side" -> side, "outcome" -> outcome)
    })
    Files.write(dir.resolve("result.json"), JsonUtils.toPrettyJson(result).getBytes("UTF-8"))
    RlcSession.on.stop()
  }

  private def run(mix: Mix, merging: Boolean): WritersOutcome = {
    val dir = Files.createTempDirectory(RlcSession.root, "simulation")
    create(dir, mix)
    val session = if (merging) RlcSession.on else RlcSession.off
    try {
      val outcome = ConcurrentWriters.run(session, (0 until mix.writers).map(statements(mix, dir, _)))
      val rows = session
        .sql(s"SELECT count(*), count(DISTINCT part, id) FROM delta.`$dir`").head()
      require(rows.getLong(0) == rows.getLong(1), s"a row is there twice: $rows")
      outcome
    } finally TableFiles.delete(dir)
  }

  /** Rows of all writers lie side by side in every file. */
  private def create(dir: Path, mix: Mix): Unit = {
    val spark = RlcSession.off
    spark.sql(s"CREATE TABLE delta.`$dir` (id BIGINT, v BIGINT, part INT) USING delta " +
      "PARTITIONED BY (part) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    (0 until mix.partitions).foreach { part =>
      spark.range(0, mix.rowsPerPartition, 1, mix.filesPerPartition)
        .selectExpr("id", "id AS v", s"$part AS part")
        .write.format("delta").mode("append").save(dir.toString)
    }
  }

  private def statements(mix: Mix, dir: Path, writer: Int): Seq[String] = {
    val random = new Random(mix.seed * 1000 + writer)
    var added = mix.rowsPerPartition + writer * 1000000000L
    def newId(): Long = { added += 1; added }
    def existing(): Seq[Long] = {
      val hot = random.nextDouble() < mix.overlap
      Seq.fill(mix.rowsPerStatement) {
        if (hot) random.nextInt(Mix.hotRows).toLong
        else {
          // Its own rows lie between those of the others.
          val first = Mix.hotRows / mix.writers + 1L
          random.between(first, mix.rowsPerPartition / mix.writers) * mix.writers + writer
        }
      }.distinct
    }
    def kind(): String = {
      val ends = mix.weights.scanLeft(("", 0.0)) { case ((_, end), (name, weight)) =>
        (name, end + weight)
      }.tail
      val at = random.nextDouble() * ends.last._2
      ends.find(_._2 > at).getOrElse(ends.last)._1
    }
    Seq.fill(mix.statements) {
      val part = random.nextInt(mix.partitions)
      val table = s"delta.`$dir`"
      def source(ids: Seq[Long]): String = s"(SELECT explode(array(${ids.mkString("L, ")}L)) AS k)"
      def merge(ids: Seq[Long], clauses: String): String =
        s"MERGE INTO $table t USING ${source(ids)} s ON t.part = $part AND t.id = s.k $clauses"
      kind() match {
        case "delete" =>
          s"DELETE FROM $table WHERE part = $part AND id IN (${existing().mkString(", ")})"
        case "update" =>
          s"UPDATE $table SET v = v + 1 WHERE part = $part AND id IN (${existing().mkString(", ")})"
        case "upsert" =>
          merge(existing().drop(1) :+ newId(), s"WHEN MATCHED THEN UPDATE SET v = t.v + 1 " +
            s"WHEN NOT MATCHED THEN INSERT (id, v, part) VALUES (s.k, 0, $part)")
        case "mergeDelete" => merge(existing(), "WHEN MATCHED THEN DELETE")
        case "insert" =>
          s"INSERT INTO $table VALUES " +
            Seq.fill(mix.rowsPerStatement)(s"(${newId()}, 0, $part)").mkString(", ")
      }
    }
  }
}
