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

import org.apache.spark.sql.delta._
import org.apache.spark.sql.delta.actions.Action
import org.apache.hadoop.fs.FileStatus

import org.apache.spark.sql.SparkSession

/** Where Delta resolves a lost race: all winners of a pass in one protected method. */
private[rlc] trait ConflictPass extends PassResolution {
  override protected def resolveConflicts(
      currentTransactionInfo: CurrentTransactionInfo,
      firstWinningVersion: Long,
      lastWinningVersion: Long,
      conflictingCommitFiles: Seq[FileStatus],
      commitIsolationLevel: IsolationLevel): CurrentTransactionInfo = {
    def stock(): CurrentTransactionInfo = super.resolveConflicts(currentTransactionInfo,
      firstWinningVersion, lastWinningVersion, conflictingCommitFiles, commitIsolationLevel)
    resolvePass(currentTransactionInfo, firstWinningVersion, lastWinningVersion,
      conflictingCommitFiles, commitIsolationLevel)(stock())
  }
}

/** The commits that won, and Delta's checker of one. */
private[rlc] object Winners {
  def read(deltaLog: DeltaLog, file: FileStatus): WinningCommitSummary =
    WinningCommitSummary.createFromFileStatus(deltaLog, file)

  /** `winner` as if it had done no more than `actions`. */
  def withActions(winner: WinningCommitSummary, actions: Seq[Action]): WinningCommitSummary =
    new WinningCommitSummary(actions, winner.fileStatus, winner.readTimeMs)

  def checker(
      spark: SparkSession,
      info: CurrentTransactionInfo,
      winner: WinningCommitSummary,
      isolationLevel: IsolationLevel): ConflictChecker =
    new ConflictChecker(spark, info, winner, isolationLevel)
}
