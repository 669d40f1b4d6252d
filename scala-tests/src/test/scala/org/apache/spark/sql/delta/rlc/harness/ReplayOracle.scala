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

import org.scalatest.Assertions._

/**
 * Runs the statements of a test again, one after the other in the order of the log, on a table
 * built from the same spec, with the feature off. Serializable means that nobody can tell the two apart:
 * rows of every version, change feed, row ids and operation metrics must be the same.
 */
object ReplayOracle {

  /** Metrics about time and bytes, and those that count files as they happen to be written. */
  private val physical = Set("executionTimeMs", "scanTimeMs", "rewriteTimeMs",
    "materializeSourceTimeMs", "numAddedBytes", "numRemovedBytes", "numOutputBytes",
    "numTargetBytesAdded", "numTargetBytesRemoved", "numBytes", "minFileSize", "maxFileSize",
    "p25FileSize", "p50FileSize", "p75FileSize", "removedFilesSize", "restoredFilesSize",
    "tableSizeAfterRestore", "numAddedChangeFiles", "numTargetChangeFilesAdded",
    "numTargetChangeFileBytes")

  def check(t: TestTable, options: CheckOptions): Unit = {
    val serial = new TestTable(t.spec, RlcSession.off)
    t.history.foreach { case (statement, _) => serial.run(statement) }
    assert(serial.version === t.version, "versions of the serial run")
    val session = RlcSession.off
    val cdf = t.spec.properties.get("delta.enableChangeDataFeed").contains("true")
    val ours = t.replay
    val theirs = serial.replay
    val ourRows = new LocalReader(t.dir, ours)
    val theirRows = new LocalReader(serial.dir, theirs)
    ((t.initialVersion + 1) to t.version).foreach { v =>
      withClue(s"version $v (${ours.commit(v).operation}) against a serial run: ") {
        assert(ourRows.rows(v, options.compareRowIds) ===
          theirRows.rows(v, options.compareRowIds), "rows")
        if (cdf) assert(t.changes(v, session) === serial.changes(v, session), "change feed")
        if (options.compareMetrics) {
          val a = ours.commit(v).metrics -- physical -- options.ignoreMetrics
          val b = theirs.commit(v).metrics -- physical -- options.ignoreMetrics
          assert(a === b, "operation metrics")
        }
      }
    }
  }
}
