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

import java.nio.file.{Files, Path => JPath}

import org.apache.spark.sql.SparkSession

/**
 * The one Spark session of all suites: local, small, without code generation, since these tables
 * have a dozen rows and compiling a plan costs more than running it.
 */
object RlcSession {

  val flag: String = "spark.databricks.delta.rowLevelConcurrency.enabled"

  /**
   * What the flag is for tests that want it on. `-Drlc.test.flag=false` runs every test on stock
   * Delta's behaviour: those that expect both statements to commit must then fail.
   */
  private val flagValue: String = System.getProperty("rlc.test.flag", "true")

  private val extensions: String = Seq(
    "io.delta.sql.DeltaSparkSessionExtension",
    "io.github.deltarlc.RowLevelConcurrencyExtension").mkString(",")

  /** Session options beyond the flag, each either for speed or to make a check of Delta's fatal. */
  private val options: Map[String, String] = Map(
    "spark.sql.extensions" -> extensions,
    "spark.sql.catalog.spark_catalog" -> "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.delta.logStore.file.impl" -> classOf[HookedLogStore].getName,
    "spark.ui.enabled" -> "false",
    "spark.sql.shuffle.partitions" -> "1",
    "spark.default.parallelism" -> "1",
    // VACUUM lists the smallest table in as many tasks, ten thousand by default.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism" -> "2",
    "spark.sql.adaptive.enabled" -> "false",
    "spark.sql.codegen.wholeStage" -> "false",
    "spark.sql.codegen.factoryMode" -> "NO_CODEGEN",
    "spark.sql.ui.explainMode" -> "simple",
    "spark.sql.maxPlanStringLength" -> "1000",
    "spark.broadcast.compress" -> "false",
    "spark.shuffle.compress" -> "false",
    "spark.databricks.delta.snapshotPartitions" -> "1",
    "spark.databricks.delta.commitValidation.consistentDataChange.mode" -> "fatal",
    "spark.databricks.delta.retentionDurationCheck.enabled" -> "false",
    // A winner of a second pass commits while the loser is inside its own commit, which on a local
    // file system would hold the lock of the log.
    "spark.databricks.delta.commitLock.enabled" -> "false") ++ QuickLocal.options

  /** The session with the feature on. */
  lazy val on: SparkSession = {
    SparkSession.clearActiveSession()
    SparkSession.clearDefaultSession()
    val session = options.foldLeft(SparkSession.builder().master("local[2]").appName("rlc-tests")) {
      case (b, (k, v)) => b.config(k, v)
    }.getOrCreate()
    set(session, flagValue)
    session
  }

  /** A session of the same Spark with the feature off: stock Delta, used by the oracle. */
  lazy val off: SparkSession = {
    val session = on.newSession()
    set(session, "false")
    session
  }

  /** Lets both sessions generate code, as they do in production: for what measures. */
  def generateCode(): Unit = Seq(on, off).foreach { session =>
    session.conf.unset("spark.sql.codegen.wholeStage")
    session.conf.unset("spark.sql.codegen.factoryMode")
  }

  private def set(session: SparkSession, flagTo: String): Unit = {
    options.foreach { case (k, v) => if (session.conf.isModifiable(k)) session.conf.set(k, v) }
    session.conf.set(flag, flagTo)
  }

  /** Runs `f` with session options set, and puts back what was there. */
  def withConf[T](session: SparkSession, pairs: (String, String)*)(f: => T): T = {
    val before = pairs.map { case (k, _) => k -> session.conf.getOption(k) }
    pairs.foreach { case (k, v) => session.conf.set(k, v) }
    try f finally before.foreach {
      case (k, Some(v)) => session.conf.set(k, v)
      case (k, None) => session.conf.unset(k)
    }
  }

  /** Where tables live; removed when the JVM ends. */
  lazy val root: JPath = {
    val dir = Files.createTempDirectory("rlc-tables-")
    Runtime.getRuntime.addShutdownHook(new Thread(() => TableFiles.delete(dir)))
    dir
  }
}
