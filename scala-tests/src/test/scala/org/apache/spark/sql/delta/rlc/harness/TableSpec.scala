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

import java.nio.file.{Files, Path}
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.{DeltaLog, DeltaOperations}

/**
 * A small table to race on. Equal specs are built once for the JVM and then copied, file by file.
 *
 * @param files one query a data file, in order; each is one append of one partition
 * @param partitionBy partition columns
 * @param properties table properties, on top of deletion vectors
 * @param deletionVectors whether the table may write deletion vectors
 * @param writeSerializable whether its isolation level is the one that only another engine sets
 * @param setup statements run after the files are there, `{t}` is the table
 */
final case class TableSpec(
    files: Seq[String] = Seq(TableSpec.tenRows),
    partitionBy: Seq[String] = Nil,
    properties: Map[String, String] = Map.empty,
    deletionVectors: Boolean = true,
    writeSerializable: Boolean = false,
    setup: Seq[String] = Nil) {

  def withProperties(more: (String, String)*): TableSpec = copy(properties = properties ++ more)

  def cdf: TableSpec = withProperties("delta.enableChangeDataFeed" -> "true")
  def rowTracking: TableSpec = withProperties("delta.enableRowTracking" -> "true")
  def ict: TableSpec = withProperties("delta.enableInCommitTimestamps" -> "true")
  def columnMapping(mode: String): TableSpec = withProperties("delta.columnMapping.mode" -> mode)
  def ws: TableSpec = copy(writeSerializable = true)

  /** Statements that run before the race, such as one that leaves a base deletion vector. */
  def after(statements: String*): TableSpec = copy(setup = setup ++ statements)

  private[harness] def build(dir: Path, session: SparkSession): Unit = {
    val name = s"delta.`$dir`"
    val allProperties =
      properties + ("delta.enableDeletionVectors" -> deletionVectors.toString)
    files.zipWithIndex.foreach { case (query, i) =>
      val writer = session.sql(query).coalesce(1).write.format("delta")
      val first = if (i > 0) writer.mode("append")
        else allProperties.foldLeft(writer) { case (w, (k, v)) => w.option(k, v) }
      (if (partitionBy.isEmpty) first else first.partitionBy(partitionBy: _*)).save(dir.toString)
    }
    if (writeSerializable) {
      val log = DeltaLog.forTable(session, dir.toString)
      val txn = log.startTransaction(catalogTableOpt = None)
      val metadata = txn.metadata
      txn.commit(Seq(metadata.copy(configuration = metadata.configuration +
        ("delta.isolationLevel" -> "WriteSerializable"))), DeltaOperations.ManualUpdate)
    }
    setup.foreach(s => session.sql(s.replace("{t}", name)).collect())
  }
}

object TableSpec {

  /** ids 0 to 9 and `v` = ten times the id. */
  val tenRows: String = rows(0, 10)

  def rows(from: Int, until: Int): String = s"SELECT id, id * 10 AS v FROM range($from, $until)"

  /** Two files whose statistics do not meet: ids 0 to 9 and 10 to 19. */
  val twoFiles: TableSpec = TableSpec(files = Seq(rows(0, 10), rows(10, 20)))

  /** Two files that statistics cannot tell apart by id: the even ids and the odd ones. */
  val mixedFiles: TableSpec = TableSpec(files = Seq(
    "SELECT id * 2 AS id, id * 20 AS v FROM range(0, 10)",
    "SELECT id * 2 + 1 AS id, id * 20 + 10 AS v FROM range(0, 10)"))

  /** One file for each of `p` = 0 and 1, five ids each: 0 to 4 and 5 to 9. */
  val partitioned: TableSpec = TableSpec(
    files = Seq("SELECT id, id * 10 AS v, CAST(id DIV 5 AS INT) AS p FROM range(0, 10)"),
    partitionBy = Seq("p"))

  private val templates = new ConcurrentHashMap[TableSpec, Path]
  private val counter = new AtomicInteger

  private def freshDir(): Path = RlcSession.root.resolve(s"t${counter.incrementAndGet()}")

  /** A new folder with the table of `spec` in it, written by stock Delta. */
  private[harness] def materialize(spec: TableSpec): Path = {
    val template = templates.computeIfAbsent(spec, { s =>
      val dir = freshDir()
      s.build(dir, RlcSession.off)
      DeltaLog.invalidateCache(RlcSession.off, new org.apache.hadoop.fs.Path(dir.toString))
      dir
    })
    val dir = freshDir()
    Files.createDirectories(dir)
    TableFiles.copy(template, dir)
    dir
  }
}
