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
package org.apache.spark.sql.delta.rlc.drivers

import java.nio.file.{Path, Paths}
import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.LongAdder

import scala.io.StdIn
import scala.util.{Failure, Random, Success, Try}

import io.github.deltarlc.{ResolutionListener, RowLevelConcurrency}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.DeltaConcurrentModificationException
import org.apache.spark.sql.delta.rlc.harness.{Causes, HookedLogStore, LinkLogStore}
import org.apache.spark.sql.delta.rlc.histories._

/** How a driver of a fleet runs. */
sealed abstract class Kind(val name: String, val hasJar: Boolean)

object Kind {
  /** With the feature on. */
  case object On extends Kind("on", hasJar = true)
  /** With the jar, and the flag set for every other statement. */
  case object Half extends Kind("half", hasJar = true)
  /** Delta alone: our jar is not on the class path. */
  case object Stock extends Kind("stock", hasJar = false)

  def named(name: String): Kind = Seq(On, Half, Stock).find(_.name == name).get
}

/** What a driver does, so that whoever started it knows as well. */
private[drivers] object Work {
  /**
   * Statements without end on a table with ids from 0 to `rows`: first one that takes away a row
   * of the first file that no other driver's first one does; then mostly such that only take rows
   * away, some that write new ones.
   */
  def statements(seed: Long, driver: Int, rows: Int): Iterator[Statement] = {
    val random = new Random(seed * 1000003L + driver)
    def id(): Value = Num(random.nextInt(rows).toLong)
    def fresh(): Value = Num(1000000L + random.nextInt(1000000000))
    def record(id: Value): Record =
      Vector(id, Num(random.nextInt(2).toLong), Num(random.nextInt(100).toLong), Str("w"))
    val onId = Cmp(Col("id"), "=", Src("id"))
    val first = Delete(Some(In(Col("id"), Vector(Num(driver + 1L)))))
    Iterator.single(first) ++ Iterator.continually(random.nextInt(100) match {
      case n if n < 62 =>
        Delete(Some(In(Col("id"), Vector.fill(1 + random.nextInt(3))(id()).distinct)))
      case n if n < 76 =>
        Merge(Rows(Vector.fill(3)(id()).distinct.map(record)), onId,
          Vector(Clause(None, None)), Vector.empty, Vector.empty)
      case n if n < 84 =>
        Merge(Rows(Vector(record(id()), record(fresh()))), onId,
          Vector(Clause(None, Some(Vector("v" -> Src("v"))))),
          Vector(InsertClause(None, Columns.names.map(Src(_)))), Vector.empty)
      case n if n < 94 =>
        Update(Vector("v" -> Add(Col("v"), Const(Num(1)))), Some(Cmp(Col("id"), "=", Const(id()))))
      case _ => Insert(Vector.fill(2)(record(fresh())), 1)
    })
  }

  /** Marks a line of a driver's output that is meant for us. */
  val mark = "driver> "

  /** How many rows a table has and a hash of them all, the same wherever it is made. */
  def rowsOf(session: SparkSession, table: String): String = {
    val rows = session.sql(s"SELECT ${Columns.names.mkString(", ")} FROM $table").collect()
      .map(_.toString).sorted
    s"${rows.length} ${rows.toSeq.hashCode}"
  }

  /** Name of a statement in the log, its `userMetadata`. */
  def tag(driver: Int, statement: Int): String = s"$driver-$statement"
}

/**
 * One driver of a fleet: `KIND NUMBER SEED ROWS TABLE OTHER`. It says READY, HELD when its first
 * statement is about to commit, and how that one ended, each time reading a line before it goes on;
 * then it runs statements until there is a line more. A statement ends as ACK, CONFLICT or FAILED,
 * with its tag and the last versions before and after it. At the end it says COUNTS of its passes,
 * DONE, and after a last line the ROWS it reads.
 */
object DriverMain {
  import Work._

  def main(args: Array[String]): Unit = {
    val kind = Kind.named(args(0))
    val Seq(driver, seed, rows) = args.toSeq.slice(1, 4).map(_.toInt): @unchecked
    val Seq(table, other) = args.toSeq.drop(4): @unchecked
    val jar = Try(Class.forName("io.github.deltarlc.RowLevelConcurrencyExtension")).isSuccess
    require(jar == kind.hasJar, s"a driver of kind ${kind.name}, and our jar is there: $jar")
    val (on, off) = sessions(kind)
    val dir = Paths.get(table)
    val names = Names(s"delta.`$dir`", other, _ => 0L)
    // The first statement of a JVM takes as long as all of the others.
    on.sql(s"SELECT count(*) FROM ${names.self}").collect()
    if (kind.hasJar) Counts.start()
    say("READY")
    StdIn.readLine()
    val work = statements(seed.toLong, driver, rows).zipWithIndex
    def runNext(): Unit = {
      val (statement, i) = work.next()
      run(if (i % 2 == 0) on else off, dir, statement.sql(names), tag(driver, i))
    }
    HookedLogStore.beforeWriting(new TableLog(dir).lastVersion + 1) {
      say("HELD")
      StdIn.readLine(): Unit
    } (runNext())
    StdIn.readLine()
    val stopped = new CountDownLatch(1)
    val listener = new Thread(() => {
      StdIn.readLine()
      stopped.countDown()
    })
    listener.setDaemon(true)
    listener.start()
    while (stopped.getCount > 0) runNext()
    if (kind.hasJar) say(s"COUNTS ${Counts.text}")
    say("DONE")
    StdIn.readLine()
    say(s"ROWS ${rowsOf(on, names.self)}")
    System.exit(0)
  }

  private def run(session: SparkSession, dir: Path, sql: String, tag: String): Unit = {
    session.conf.set("spark.databricks.delta.commitInfo.userMetadata", tag)
    val log = new TableLog(dir)
    val before = log.lastVersion
    val ending = Try(session.sql(sql).collect()) match {
      case Success(_) => "ACK"
      case Failure(e) if Causes.of(e).exists(_.isInstanceOf[DeltaConcurrentModificationException]) =>
        "CONFLICT"
      case Failure(e) =>
        e.printStackTrace()
        "FAILED"
    }
    say(s"$ending $tag $before ${log.lastVersion}")
  }

  /** The session of even statements and that of odd ones. */
  private def sessions(kind: Kind): (SparkSession, SparkSession) = {
    val extensions = Seq("io.delta.sql.DeltaSparkSessionExtension") ++
      Option.when(kind.hasJar)("io.github.deltarlc.RowLevelConcurrencyExtension")
    val options = Map(
      "spark.sql.extensions" -> extensions.mkString(","),
      "spark.sql.catalog.spark_catalog" -> "org.apache.spark.sql.delta.catalog.DeltaCatalog",
      "spark.delta.logStore.file.impl" -> classOf[LinkLogStore].getName,
      "spark.ui.enabled" -> "false",
      "spark.sql.shuffle.partitions" -> "1",
      "spark.sql.adaptive.enabled" -> "false",
      "spark.sql.codegen.wholeStage" -> "false",
      "spark.sql.codegen.factoryMode" -> "NO_CODEGEN",
      "spark.databricks.delta.snapshotPartitions" -> "1")
    val on = options.foldLeft(SparkSession.builder().master("local[1]").appName("driver")) {
      case (b, (k, v)) => b.config(k, v)
    }.getOrCreate()
    on.sparkContext.setLogLevel("ERROR")
    val odd = on.newSession()
    on.conf.set(flag, kind.hasJar)
    odd.conf.set(flag, kind == Kind.On)
    (on, odd)
  }

  private val flag = "spark.databricks.delta.rowLevelConcurrency.enabled"

  // scalastyle:off println
  private def say(text: String): Unit = Console.out.println(mark + text)
}

/** Passes that were resolved here. A driver without our jar cannot load what this names. */
private[drivers] object Counts {
  private val resolved = new LongAdder
  private val merged = new LongAdder

  def start(): Unit = {
    val listener: ResolutionListener = r => if (r.rebased) {
      resolved.increment()
      merged.add(r.merged.size.toLong)
    }
    RowLevelConcurrency.addListener(listener)
  }

  def text: String = s"$resolved $merged"
}
