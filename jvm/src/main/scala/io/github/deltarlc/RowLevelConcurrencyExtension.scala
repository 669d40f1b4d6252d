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

import java.util.Properties
import java.util.concurrent.atomic.AtomicBoolean

import scala.util.Using

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
 * class path is not the version it was built for.
 */
class RowLevelConcurrencyExtension extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    if (RowLevelConcurrencyExtension.fitsDelta) {
      extensions.injectPlannerStrategy(_ => RowLevelCommandStrategy.create())
    }
}

private object RowLevelConcurrencyExtension extends Logging {

  private val warned = new AtomicBoolean

  private lazy val builtFor: String = {
    val properties = new Properties
    Using.resource(getClass.getResourceAsStream("build.properties"))(properties.load)
    properties.getProperty("delta")
  }

  def fitsDelta: Boolean = {
    val found =
      try io.delta.VERSION
      catch { case e: LinkageError => s"none ($e)" }
    if (found != builtFor && warned.compareAndSet(false, true)) {
      logWarning(s"Row-level concurrency stays off: this jar is built for Delta $builtFor, the " +
        s"class path has $found")
    }
    found == builtFor
  }
}
