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

import org.apache.spark.internal.config.{ConfigBuilder, ConfigEntry}
import org.apache.spark.sql.internal.SQLConf

/**
 * The confs of row-level concurrency, registered like Delta's own: `SET -v` lists them and a wrong
 * value is refused when it is set.
 */
private[rlc] object RowLevelConcurrencyConf {

  private def buildConf(key: String): ConfigBuilder =
    SQLConf.buildConf(s"spark.databricks.delta.$key")

  val ENABLED: ConfigEntry[Boolean] =
    buildConf("rowLevelConcurrency.enabled")
      .doc("Lets a DELETE, UPDATE or MERGE that lost the race against other commits merge its " +
        "deletion vectors with theirs when both changed different rows, instead of failing. " +
        "Read once for each statement.")
      .booleanConf
      .createWithDefault(false)

  val DRY_RUN: ConfigEntry[Boolean] =
    buildConf("rowLevelConcurrency.dryRun")
      .doc("Lets every lost race end as on stock Delta, and counts and logs which of the " +
        "conflicts would have been merged. Nothing is merged or written. When true, " +
        "rowLevelConcurrency.enabled does not matter. Read once for each statement.")
      .booleanConf
      .createWithDefault(false)

  val MAX_RESOLUTION_TIME_MS: ConfigEntry[Long] =
    buildConf("rowLevelConcurrency.maxResolutionTimeMs")
      .doc("Longest time in milliseconds that one pass of conflict resolution may spend on " +
        "reading and comparing deletion vectors. A pass that takes longer is given up and the " +
        "statement fails with Delta's own conflict.")
      .longConf
      .checkValue(_ > 0, "must be positive")
      .createWithDefault(10L * 60 * 1000)

  val MAX_DV_BYTES: ConfigEntry[Long] =
    buildConf("rowLevelConcurrency.maxDvBytes")
      .doc("Most bytes of deletion vectors that one pass of conflict resolution may hold in " +
        "memory. A pass that needs more is given up before it reads any, and the statement " +
        "fails with Delta's own conflict. At most 2147483647.")
      .longConf
      .checkValue(v => v > 0 && v <= Int.MaxValue, "must be between 1 and 2147483647")
      .createWithDefault(512L * 1024 * 1024)

  /** Registers the confs; an object's fields are set when it is first touched. */
  def register(): Unit =
    Seq(ENABLED, DRY_RUN, MAX_RESOLUTION_TIME_MS, MAX_DV_BYTES).foreach(_.key)

  /** The values of one statement. */
  final case class Settings(
      maxResolutionTimeMs: Long, maxDvBytes: Long, dryRun: Boolean = false)

  /** The settings of a statement that starts now; None when the feature is off. */
  def settings(conf: SQLConf): Option[Settings] = {
    val dryRun = conf.getConf(DRY_RUN)
    if (dryRun || conf.getConf(ENABLED)) {
      Some(Settings(conf.getConf(MAX_RESOLUTION_TIME_MS), conf.getConf(MAX_DV_BYTES), dryRun))
    } else {
      None
    }
  }
}
