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

package org.apache.spark.sql.delta.rlc.histories

import java.nio.file.{Files, Path}
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicInteger

import io.github.deltarlc.{ResolutionListener, RowLevelConcurrency}
import org.apache.hadoop.fs.{Path => HPath}
import org.apache.logging.log4j.Level
import org.apache.logging.log4j.core.config.Configurator

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.delta.{DeltaLog, DeltaOperations}
import org.apache.spark.sql.delta.rlc.harness.{RlcSession, TableFiles}
import org.apache.spark.sql.types.{LongType, StringType, StructType}

/**
 * The sessions and the folders that histories run in. Equal tables are built once and then copied.
 * All partition counts are 1: a table here has a dozen rows, and each task costs more than they do.
 */
final class Lab(flag: Boolean) {

  Lab.listen()

  private val plain = newSession(materialize = "none")
  private val materializing = newSession(materialize = "auto")

  private def newSession(materialize: String): SparkSession = {
    val s = (if (flag) RlcSession.on else RlcSession.off).newSession()
    Lab.tune(s)
    s.conf.set(RlcSession.flag, flag.toString)
    s.conf.set("spark.databricks.delta.merge.materializeSource", materialize)
    s
  }

  /** Where the statements of a case run. */
  def session(history: Case): SparkSession = if (history.materialize) materializing else plain
}

object Lab {

  private val listener: ResolutionListener = r => Driver.resolved(Pass(
    r.pass, r.rebased, r.merged.size, r.removed.size, r.untouched.size, r.refusals.map(_.rule)))

  private lazy val listening: Unit = {
    RowLevelConcurrency.addListener(listener)
    // Every conflict of a MERGE is an error to its command, with a stack trace; here it is routine.
    // And plans are cut short on purpose, see `tune`.
    RlcSession.on
    Seq("org.apache.spark.sql.delta.commands.MergeIntoCommand",
      "org.apache.spark.sql.catalyst.util.StringUtils",
      "org.apache.spark.sql.util.CaseInsensitiveStringMap").foreach { name =>
      Configurator.setLevel(name, Level.OFF)
    }
  }

  /** From now on a loser stops after each pass of conflict resolution. */
  private def listen(): Unit = listening

  private lazy val builder: SparkSession = {
    val s = RlcSession.off.newSession()
    tune(s)
    s.conf.set(RlcSession.flag, "false")
    s
  }

  private def tune(s: SparkSession): Unit = {
    RlcSession.on.conf.getAll.foreach { case (k, v) => if (s.conf.isModifiable(k)) s.conf.set(k, v) }
    Seq(
      "spark.sql.shuffle.partitions" -> "1",
      "spark.sql.leafNodeDefaultParallelism" -> "1",
      "spark.sql.lightweightPlanChangeValidation" -> "false",
      "spark.sql.ui.explainMode" -> "simple",
      "spark.sql.maxPlanStringLength" -> "100",
      "spark.databricks.delta.snapshotPartitions" -> "1").foreach { case (k, v) => s.conf.set(k, v) }
  }

  /** A template on disk, with the rows that the model says it has after each version. */
  final case class Template(
      dir: Path,
      firstVersion: Long,
      lastVersion: Long,
      history: Vector[Vector[ModelRow]]) {
    def restoreTo(back: Int): Long = math.max(firstVersion, lastVersion - back)
    def names(dir: Path): Names = Names(s"delta.`$dir`", otherName, restoreTo)
  }

  /** A table that never changes, for sources and subqueries that are not the target. */
  val otherRows: Vector[Record] = Vector(
    Vector(Num(1), Num(0), Num(21), Str("x")),
    Vector(Num(3), Num(1), Num(3), Str("y")),
    Vector(Num(4), Num(0), Null, Str("x")),
    Vector(Num(7), Num(2), Num(7), Null),
    Vector(Num(12), Num(1), Num(40), Str("z")))

  lazy val otherName: String = {
    val dir = fresh()
    create(dir, Table(Vector(otherRows)))
    s"delta.`$dir`"
  }

  private val templates = new ConcurrentHashMap[Table, Template]
  private val counter = new AtomicInteger
  private def fresh(): Path = RlcSession.root.resolve(s"h${counter.incrementAndGet()}")

  def template(table: Table): Template = templates.computeIfAbsent(table, t => {
    val dir = fresh()
    val first = create(dir, t)
    val log = new TableLog(dir)
    val ids = Iterator.from(1).map(_.toLong)
    val loaded = t.files.flatten.map(ModelRow(ids.next(), _))
    val history = t.setup.foldLeft(Vector.fill(first.toInt + 1)(loaded)) { (history, s) =>
      val before = log.lastVersion
      def restoreTo(back: Int): Long = math.max(first, before - back)
      builder.sql(s.sql(Names(s"delta.`$dir`", otherName, restoreTo))).collect()
      val tables = Tables(history.last.map(_.values), otherRows)
      val env = Env(tables, back => history(restoreTo(back).toInt), () => ids.next())
      val rows = s.run(history.last, env).rows
      history ++ Vector.fill((log.lastVersion - before).toInt)(rows)
    }
    forget(dir)
    Template(dir, first, log.lastVersion, history)
  })

  /** Creates the table of `t` without its set-up; it is complete from the returned version on. */
  private def create(dir: Path, t: Table): Long = {
    val schema = Columns.names.zip(Columns.types).foldLeft(new StructType) { case (s, (c, ty)) =>
      s.add(c, if (ty == "STRING") StringType else LongType)
    }
    val files = t.files.map(_.map(r => Row.fromSeq(r.map {
      case Null => null
      case Num(n) => n
      case Str(s) => s
    })))
    val rdd = builder.sparkContext.parallelize(files, files.size).flatMap(rows => rows)
    val options = Map("delta.enableDeletionVectors" -> true) ++
      (if (t.cdf) Map("delta.enableChangeDataFeed" -> true) else Nil) ++
      (if (t.rowTracking) Map("delta.enableRowTracking" -> true) else Nil) ++
      (if (t.commitTimestamps) Map("delta.enableInCommitTimestamps" -> true) else Nil)
    val writer = options.foldLeft(builder.createDataFrame(rdd, schema).write.format("delta")) {
      case (w, (k, v)) => w.option(k, v)
    }
    (if (t.partitioned) writer.partitionBy("p") else writer).save(dir.toString)
    if (!t.writeSerializable) 0L else {
      // Stock Delta refuses the property; a table that another engine wrote may have it.
      val txn = DeltaLog.forTable(builder, dir.toString).startTransaction(catalogTableOpt = None)
      val m = txn.metadata
      txn.commit(Seq(m.copy(configuration = m.configuration +
        ("delta.isolationLevel" -> "WriteSerializable"))), DeltaOperations.ManualUpdate)
    }
  }

  /** A copy of a template, to race on. */
  def copy(template: Template): Path = {
    val dir = fresh()
    Files.createDirectories(dir)
    TableFiles.copy(template.dir, dir)
    dir
  }

  def forget(dir: Path): Unit = DeltaLog.invalidateCache(builder, new HPath(dir.toString))

  def drop(dir: Path): Unit = {
    forget(dir)
    TableFiles.delete(dir)
  }

  /** A row of Spark as a record of the model. */
  def record(r: Row): Record = Vector.tabulate(Columns.names.size)(i => r.get(i) match {
    case null => Null
    case n: Long => Num(n)
    case s: String => Str(s)
    case other => throw new IllegalStateException(s"a value of ${other.getClass}")
  })
}
