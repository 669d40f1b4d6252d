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
package io.github.deltarlc

import java.util.concurrent.atomic.AtomicBoolean

import org.apache.spark.sql.delta.rlc.RowLevelCommandStrategy

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSessionExtensions

/**
 * Adds row-level concurrency to a session, next to Delta's own extension:
 * {{{
 * spark.sql.extensions = io.delta.sql.DeltaSparkSessionExtension,io.github.deltarlc.RowLevelConcurrencyExtension
 * spark.databricks.delta.rowLevelConcurrency.enabled = true
 * }}}
 * The order of the two does not matter, and only the driver needs the jar.
 *
 * Works below Delta's API, so it stays out of the way, with one warning, when the Delta on the
 * class path is not the version it was built for, or Spark not the same minor version.
 */
class RowLevelConcurrencyExtension private[deltarlc] (delta: String, spark: String)
  extends (SparkSessionExtensions => Unit) with Logging {
  import RowLevelConcurrencyExtension._

  // Both are fields of package objects: read at run time, not compiled in.
  def this() = this(
    RowLevelConcurrencyExtension.versionOf(io.delta.VERSION),
    RowLevelConcurrencyExtension.versionOf(org.apache.spark.SPARK_VERSION))

  override def apply(extensions: SparkSessionExtensions): Unit =
    if (delta == BuildInfo.deltaVersion && minor(spark) == minor(BuildInfo.sparkVersion)) {
      extensions.injectPlannerStrategy(_ => RowLevelCommandStrategy.create())
    } else if (warned.compareAndSet(false, true)) {
      logWarning("Row-level concurrency stays off: this jar is built for Delta " +
        s"${BuildInfo.deltaVersion} on Spark ${minor(BuildInfo.sparkVersion)}, the class path has " +
        s"Delta $delta on Spark $spark")
    }
}

private object RowLevelConcurrencyExtension {

  private val warned = new AtomicBoolean

  private def versionOf(version: => String): String =
    try version
    catch { case e: LinkageError => s"none ($e)" }

  private def minor(version: String): String = version.split('.').take(2).mkString(".")
}
