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
import org.apache.spark.sql.delta.actions.{Action, AddFile, Protocol, RemoveFile}

import org.apache.spark.sql.SparkSession

/**
 * What this library uses of Delta 4.1 and 4.2 and other versions have not, or have otherwise.
 * Everything else compiles against all of them.
 *
 * Read at v4.1.0 and v4.2.0 beside 4.3.1: the file checks are the same line by line. 4.1 lets a
 * winner pass that adds a table feature which 4.2 ends the transaction for; a merge adds nothing to
 * what Delta then commits, and G3 is checked against the winner's protocol. Neither version checks
 * the actions of a commit for duplicates, so that is done here. A commit whose success was lost on
 * the way is not recognised among the winners. It ends in Delta's own conflict as without this
 * library: a file it changed has this transaction's rows in its deletion vector (P5) or is removed
 * (P1), and its new files are new to Delta's append check.
 */
private[rlc] object DeltaShims {

  /** Delta's checks of one winner. */
  def check(checker: ConflictChecker): CurrentTransactionInfo =
    checker.checkConflicts()

  /** Whether the table's file actions carry references into an adaptive metadata tree (G4). */
  def usesAdaptiveMetadata(protocol: Protocol): Boolean = false

  /**
   * Checks the invariants of a commit on the rebased actions: of a path at most one entry is added
   * and one removed, and not the same one.
   */
  def validate(
      spark: SparkSession,
      actions: Seq[Action],
      deltaLog: DeltaLog,
      operation: DeltaOperations.Operation): Unit = {
    type Entry = (String, Option[String])
    def entries(of: PartialFunction[Action, Entry]): Map[String, Option[String]] =
      actions.collect(of).groupMap(_._1)(_._2).map {
        case (path, Seq(dv)) => path -> dv
        case (path, several) => throw new IllegalStateException(
          s"${several.size} entries of $path in one commit: ${several.map(_.getOrElse("no DV"))}")
      }
    val added = entries { case a: AddFile => a.path -> a.getDeletionVectorUniqueId }
    val removed = entries { case r: RemoveFile => r.path -> r.getDeletionVectorUniqueId }
    added.foreach { case (path, dv) =>
      if (removed.get(path).contains(dv)) {
        throw new IllegalStateException(
          s"one entry of $path is added and removed in one commit: ${dv.getOrElse("no DV")}")
      }
    }
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
}
