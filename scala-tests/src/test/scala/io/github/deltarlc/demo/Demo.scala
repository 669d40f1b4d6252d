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

package io.github.deltarlc.demo

import java.io.{File, PrintStream}
import java.nio.file.Files
import java.util.Locale
import java.util.concurrent.{CountDownLatch, TimeUnit}

import scala.util.{Failure, Success, Try}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.{DeltaConcurrentModificationException, NoOpTransactionExecutionObserver, OptimisticTransaction, TransactionExecutionObserver}

/**
 * Two concurrent DELETEs of different rows of one file, first as stock Delta runs them, then with
 * row-level concurrency switched on, side by side.
 *
 * Both statements are held right before they commit until both are there, so that they always start
 * from the same version, and are then let go one after the other. Ends with status 0 only if stock
 * Delta refused the second and with the flag on both committed and the table holds what it should.
 */
object Demo {
  private val Rows = 1000000L
  private val Customers = 5000L
  private val PerCustomer = Rows / Customers
  private val First = 17L
  private val Second = 42L
  private val Flag = "spark.databricks.delta.rowLevelConcurrency.enabled"

  private val out: PrintStream = System.out

  /** How one part went. `versions` are those that the two statements committed. */
  private case class Part(
      title: String,
      sql: Seq[String],
      outcomes: Seq[Try[Unit]],
      rowsLeft: Long,
      rowsOfBoth: Long,
      dataFiles: Long,
      history: Seq[Seq[String]])

  def main(args: Array[String]): Unit = {
    val dir = Files.createTempDirectory("delta-rlc-demo-").toFile
    val spark = SparkSession.builder()
      .appName("delta-rlc demo")
      .master("local[2]")
      .config("spark.sql.extensions",
        "io.delta.sql.DeltaSparkSessionExtension,io.github.deltarlc.RowLevelConcurrencyExtension")
      .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
      .config("spark.sql.shuffle.partitions", "2")
      .config("spark.databricks.delta.snapshotPartitions", "2")
      .config("spark.ui.enabled", "false")
      .getOrCreate()
    val ok = try {
      say(s"Spark ${spark.version}, one local session. A table of ${grouped(Rows)} rows in one file, with " +
        s"deletion vectors: $PerCustomer orders of each of ${grouped(Customers)} customers.")
      say("Two DELETEs of different customers start from the same version; then one commits, and then the other.")
      val stock = run(spark, dir, "stock Delta (flag off)", "orders_stock", flag = false)
      val ours = run(spark, dir, "with delta-rlc (flag on)", "orders", flag = true)
      sideBySide(stock, ours)
      Seq(stock, ours).foreach(printHistory)
      val problems = wrong(stock, ours)
      say("")
      if (problems.isEmpty) {
        say("Stock Delta lost one of the two DELETEs; with delta-rlc both committed, and no row is missing or left.")
      } else {
        problems.foreach(p => say(s"NOT AS EXPECTED: $p"))
      }
      problems.isEmpty
    } finally {
      spark.stop()
      delete(dir)
    }
    out.flush()
    sys.exit(if (ok) 0 else 1)
  }

  // ---- one part ---------------------------------------------------------------------------

  private def run(spark: SparkSession, dir: File, title: String, name: String, flag: Boolean): Part = {
    spark.conf.set(Flag, flag.toString)
    val table = s"delta.`${new File(dir, name)}`"
    spark.sql(s"CREATE TABLE $table (id BIGINT, customer BIGINT, amount DOUBLE) USING delta " +
      "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')").collect()
    spark.range(0, Rows, 1, 1)
      .selectExpr("id", s"id % $Customers AS customer", "CAST(id % 997 AS DOUBLE) AS amount")
      .write.format("delta").mode("append").save(new File(dir, name).getPath)

    val statements = Seq(First, Second).map { c =>
      new HeldStatement(spark, s"DELETE FROM $table WHERE customer = $c")
    }
    statements.foreach(_.start())
    statements.foreach(_.awaitReadyToCommit()) // both have read, and neither has committed
    val outcomes = statements.map(_.letGo()) // one after the other

    val history = spark.sql(s"DESCRIBE HISTORY $table").selectExpr(
      "CAST(version AS STRING)", "CAST(readVersion AS STRING)", "operation",
      "regexp_replace(operationParameters.predicate, '#[0-9]+L?|[\\\\[\\\\]\"]', '')",
      "operationMetrics.numDeletedRows", "operationMetrics.numDeletionVectorsAdded")
      .collect().toSeq.map(row => row.toSeq.map(v => if (v == null) "" else v.toString))
    Part(
      title,
      Seq(First, Second).map(c => s"DELETE ... WHERE customer = $c"),
      outcomes,
      rowsLeft = spark.sql(s"SELECT count(*) FROM $table").head().getLong(0),
      rowsOfBoth =
        spark.sql(s"SELECT count(*) FROM $table WHERE customer IN ($First, $Second)").head().getLong(0),
      dataFiles = spark.sql(s"DESCRIBE DETAIL $table").select("numFiles").head().getLong(0),
      history)
  }

  /** What is not as it should be; empty if all is. */
  private def wrong(stock: Part, ours: Part): Seq[String] = {
    def want(what: String, is: Any, should: Any): Option[String] =
      if (is == should) None else Some(s"$what: $is instead of $should")
    def committed(part: Part): Seq[Boolean] = part.outcomes.map(_.isSuccess)
    val refused = stock.outcomes.last match {
      case Failure(_: DeltaConcurrentModificationException) => None
      case other => Some(s"stock, second DELETE: $other instead of Delta's conflict")
    }
    Seq(
      want("stock, committed", committed(stock), Seq(true, false)),
      refused,
      want("stock, rows", stock.rowsLeft, Rows - PerCustomer),
      want("stock, rows of the two customers", stock.rowsOfBoth, PerCustomer),
      want("flag on, committed", committed(ours), Seq(true, true)),
      want("flag on, rows", ours.rowsLeft, Rows - 2 * PerCustomer),
      want("flag on, rows of the two customers", ours.rowsOfBoth, 0L),
      want("flag on, data files", ours.dataFiles, 1L),
      want("flag on, DELETEs in the history",
        ours.history.filter(_(2) == "DELETE").map(h => h.head.toLong), Seq(3L, 2L)),
      want("flag on, version they read",
        ours.history.filter(_(2) == "DELETE").map(h => h(1)), Seq("1", "1"))
    ).flatten
  }

  // ---- printing ---------------------------------------------------------------------------

  private def sideBySide(parts: Part*): Unit = {
    def result(part: Part, i: Int): String = part.outcomes(i) match {
      case Success(_) => "committed"
      case Failure(e) => s"FAILED: ${e.getClass.getSimpleName}"
    }
    val head = "" +: parts.map(_.title)
    val rows = parts.head.sql.indices.map(i => parts.head.sql(i) +: parts.map(result(_, i))) ++ Seq(
      "rows left" +: parts.map(p => grouped(p.rowsLeft)),
      "rows left of the two customers" +: parts.map(p => grouped(p.rowsOfBoth)),
      "data files" +: parts.map(p => grouped(p.dataFiles)))
    say("")
    printTable(head +: rows)
    parts.flatMap(_.outcomes).collect { case Failure(e) =>
      say("")
      say(s"The failure: ${e.getMessage.linesIterator.next().take(300)}")
    }
  }

  private def printHistory(part: Part): Unit = {
    say("")
    say(s"History, ${part.title}:")
    printTable(Seq("version", "read version", "operation", "predicate", "rows deleted", "DVs written") +: part.history)
  }

  private def printTable(rows: Seq[Seq[String]]): Unit = {
    val widths = rows.transpose.map(_.map(_.length).max)
    rows.zipWithIndex.foreach { case (row, i) =>
      say(row.zip(widths).map { case (cell, w) => cell.padTo(w, ' ') }.mkString("  ", "  ", "").stripTrailing)
      if (i == 0) say(widths.map("-" * _).mkString("  ", "  ", ""))
    }
  }

  private def grouped(n: Long): String = String.format(Locale.ROOT, "%,d", Long.box(n))

  private def say(line: String): Unit = out.println(line)

  private def delete(file: File): Unit = {
    Option(file.listFiles()).foreach(_.foreach(delete))
    file.delete()
  }
}

/** A statement on a thread of its own that stops right before its first attempt to commit. */
private class HeldStatement(spark: SparkSession, sql: String) {
  private val ready = new CountDownLatch(1)
  private val go = new CountDownLatch(1)
  @volatile private var result: Try[Unit] = _

  private val observer = new TransactionExecutionObserver {
    private def stock = NoOpTransactionExecutionObserver
    override def createChild(): TransactionExecutionObserver = stock.createChild()
    override def startingTransaction(f: => OptimisticTransaction): OptimisticTransaction = f
    override def preparingCommit[T](f: => T): T = f
    override def beginDoCommit(): Unit = {
      ready.countDown()
      go.await()
    }
    override def beginBackfill(): Unit = ()
    override def beginPostCommit(): Unit = ()
    override def transactionCommitted(): Unit = ()
    override def transactionAborted(): Unit = ()
  }

  private val thread = new Thread(() => {
    result = Try {
      SparkSession.setActiveSession(spark)
      TransactionExecutionObserver.withObserver(observer)(spark.sql(sql).collect())
    }.map(_ => ())
    ready.countDown() // also if it failed before it came to commit
  }, sql)
  thread.setDaemon(true)

  def start(): Unit = thread.start()

  def awaitReadyToCommit(): Unit =
    if (!ready.await(5, TimeUnit.MINUTES)) sys.error(s"not ready to commit after 5 minutes: $sql")

  /** Lets it commit, and waits for what comes of it. */
  def letGo(): Try[Unit] = {
    go.countDown()
    thread.join(TimeUnit.MINUTES.toMillis(5))
    if (thread.isAlive) sys.error(s"not finished after 5 minutes: $sql")
    result
  }
}
