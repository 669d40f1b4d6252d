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
import org.apache.spark.sql.delta.util.FileNames
import org.apache.hadoop.fs.FileStatus

import org.apache.spark.sql.SparkSession

/**
 * Where Delta 4.0 resolves a lost race: winner by winner. The list of winners it works through is
 * seen on its way; the pass is made at the first of them, and leaves nothing to do at the others.
 */
private[rlc] trait ConflictPass extends PassResolution {
  private var winners = Seq.empty[FileStatus]

  override protected def getConflictingVersions(previousAttemptVersion: Long): Seq[FileStatus] = {
    winners = super.getConflictingVersions(previousAttemptVersion)
    winners
  }

  override protected def checkForConflictsAgainstVersion(
      currentTransactionInfo: CurrentTransactionInfo,
      otherCommitFileStatus: FileStatus,
      commitIsolationLevel: IsolationLevel): CurrentTransactionInfo = {
    def stock(info: CurrentTransactionInfo, winner: FileStatus): CurrentTransactionInfo =
      super.checkForConflictsAgainstVersion(info, winner, commitIsolationLevel)
    def version(file: FileStatus): Long = FileNames.deltaVersion(file)
    val (first, last) = (version(winners.head), version(winners.last))
    if (version(otherCommitFileStatus) == first) {
      resolvePass(currentTransactionInfo, first, last, winners, commitIsolationLevel)(
        winners.foldLeft(currentTransactionInfo)(stock))
    } else {
      currentTransactionInfo
    }
  }
}

/** The commits that won, and Delta's checker of one, which would read the commit itself. */
private[rlc] object Winners {
  private final class Winner(val file: FileStatus, actions: Seq[Action])
    extends WinningCommitSummary(actions, FileNames.deltaVersion(file))

  def read(deltaLog: DeltaLog, file: FileStatus): WinningCommitSummary =
    new Winner(file, deltaLog.store.read(file, deltaLog.newDeltaHadoopConf()).map(Action.fromJson))

  /** `winner`, which [[read]] returned, as if it had done no more than `actions`. */
  def withActions(winner: WinningCommitSummary, actions: Seq[Action]): WinningCommitSummary =
    new Winner(fileOf(winner), actions)

  def checker(
      spark: SparkSession,
      info: CurrentTransactionInfo,
      winner: WinningCommitSummary,
      isolationLevel: IsolationLevel): ConflictChecker =
    new ConflictChecker(spark, info, fileOf(winner), isolationLevel) {
      override protected def createWinningCommitSummary(): WinningCommitSummary = winner
    }

  private def fileOf(winner: WinningCommitSummary): FileStatus =
    winner.asInstanceOf[Winner].file
}
