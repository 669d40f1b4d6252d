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

import org.apache.spark.sql.SparkSession

/** Checks of a commit's actions, which Delta has since 4.3. */
private[rlc] object ActionChecks {

  /** Delta's checks of one winner. */
  def run(checker: ConflictChecker): CurrentTransactionInfo =
    checker.checkConflictsAndValidateActions()

  /**
   * Checks the invariants of a commit on the rebased actions, as Delta does of actions that its own
   * conflict resolution changed.
   */
  def validate(
      spark: SparkSession,
      actions: Seq[Action],
      deltaLog: DeltaLog,
      operation: DeltaOperations.Operation): Unit = {
    ConflictChecker.checkNoDuplicateActions(spark, actions.iterator).foreach(_ => ())
    ConflictChecker.trackConsistentDataChange(spark, actions.iterator, deltaLog, operation,
      callerContext = "rowLevelConcurrency").foreach(_ => ())
  }
}

/** Methods of an observer's chain that not every version has. */
private[rlc] trait ObserverChain extends TransactionExecutionObserver {
  protected def replaced: TransactionExecutionObserver

  override def getNextObserver: Option[TransactionExecutionObserver] = replaced.getNextObserver
}
