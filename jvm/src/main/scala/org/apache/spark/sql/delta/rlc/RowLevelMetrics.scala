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

import java.util.concurrent.TimeUnit

import com.codahale.metrics.MetricRegistry
import io.github.deltarlc.Resolution

import org.apache.spark.SparkEnv
import org.apache.spark.metrics.MetricsSystem
import org.apache.spark.metrics.source.Source

/**
 * What the statements of one SparkContext met, for whatever sinks Spark's metrics system has.
 *
 * Lives below org.apache.spark for [[Source]], which is private to it.
 */
private[rlc] final class RowLevelMetrics extends Source {
  import RowLevelMetrics._

  override val sourceName: String = NAME
  override val metricRegistry: MetricRegistry = new MetricRegistry

  private val done = new Counts("")
  /** What would have been done, were it no dry run. */
  private val rehearsed = new Counts("dryRun.")
  private val abortedAfterRebase = metricRegistry.counter("abortedAfterRebase")

  private final class Counts(prefix: String) {
    private val resolved = metricRegistry.counter(prefix + "resolved")
    private val aborted = AbortReason.all.map { reason =>
      reason.name -> metricRegistry.counter(s"${prefix}aborted.${reason.name}")
    }.toMap
    private val filesMerged = metricRegistry.counter(prefix + "filesMerged")
    private val filesRemoved = metricRegistry.counter(prefix + "filesRemoved")
    private val filesUntouched = metricRegistry.counter(prefix + "filesUntouched")
    private val rowsMerged = metricRegistry.counter(prefix + "rowsMerged")
    private val dvBytesRead = metricRegistry.counter(prefix + "dvBytesRead")
    private val dvBytesWritten = metricRegistry.counter(prefix + "dvBytesWritten")
    private val time = metricRegistry.timer(prefix + "resolutionTime")

    def add(r: Resolution): Unit = {
      r.abortReason.foreach(abort)
      if (r.rebased && (r.merged ++ r.removed ++ r.untouched).nonEmpty) resolved.inc()
      filesMerged.inc(r.merged.size.toLong)
      filesRemoved.inc(r.removed.size.toLong)
      filesUntouched.inc(r.untouched.size.toLong)
      rowsMerged.inc(r.ownRows)
      dvBytesRead.inc(r.bytesRead)
      dvBytesWritten.inc(r.bytesWritten)
      time.update(r.micros, TimeUnit.MICROSECONDS)
    }

    def abort(reason: String): Unit = aborted(reason).inc()
  }

  private def counts(dryRun: Boolean): Counts = if (dryRun) rehearsed else done

  /** Counts a pass. */
  def record(r: Resolution): Unit = {
    counts(r.dryRun).add(r)
    if (!r.rebased && r.afterRebase) abortedAfterRebase.inc()
  }

  /** Counts a conflict that came to no pass, as the transaction was left to Delta from its start. */
  def recordAbort(reason: AbortReason, dryRun: Boolean): Unit = counts(dryRun).abort(reason.name)
}

private[rlc] object RowLevelMetrics {
  val NAME = "rowLevelConcurrency"

  /**
   * The source of the running SparkContext, made and registered by the first call. A stopped
   * context's goes with its metrics system, as nobody else holds it.
   */
  def current: Option[RowLevelMetrics] = Option(SparkEnv.get).map(env => of(env.metricsSystem))

  /** The one source of `system`. */
  def of(system: MetricsSystem): RowLevelMetrics = synchronized {
    system.getSourcesByName(NAME).collectFirst { case ours: RowLevelMetrics => ours }.getOrElse {
      val source = new RowLevelMetrics
      system.registerSource(source)
      source
    }
  }
}
