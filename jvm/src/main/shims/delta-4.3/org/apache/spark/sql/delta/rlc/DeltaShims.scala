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
import org.apache.spark.sql.delta.actions.{Action, Protocol}

import org.apache.spark.sql.SparkSession

/**
 * What this library uses of Delta 4.3 and other versions have not, or have otherwise. Everything
 * else compiles against all of them.
 *
 * Read at v4.3.1 beside 4.2.0: the file checks are the same line by line. New are the enablement of
 * in-commit timestamps and of V2 checkpoints among the metadata changes that do not conflict, and
 * the check of actions that conflict resolution changed. Beside 4.4.0: a commit whose success was
 * lost on the way is not recognised among the winners. It ends in Delta's own conflict as without
 * this library: a file it changed has this transaction's rows in its deletion vector (P5) or is
 * removed (P1), and its new files are new to Delta's append check.
 */
private[rlc] object DeltaShims {

  /** Delta's checks of one winner. */
  def check(checker: ConflictChecker): CurrentTransactionInfo =
    checker.checkConflictsAndValidateActions()

  /** Whether the table's file actions carry references into an adaptive metadata tree (G4). */
  def usesAdaptiveMetadata(protocol: Protocol): Boolean = false

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

/** The transaction's part of it. */
private[rlc] trait TransactionShims extends OptimisticTransaction {
  /** Delta's answer where `winner` is this transaction's own commit; None where it is not. */
  protected def ownCommit(
      winner: WinningCommitSummary,
      firstWinner: Long,
      info: CurrentTransactionInfo): Option[CurrentTransactionInfo] =
    None
}

/** The observer's part of it: methods of the chain that not every version has. */
private[rlc] trait ObserverShims extends TransactionExecutionObserver {
  protected def replaced: TransactionExecutionObserver

  override def getNextObserver: Option[TransactionExecutionObserver] = replaced.getNextObserver
}
