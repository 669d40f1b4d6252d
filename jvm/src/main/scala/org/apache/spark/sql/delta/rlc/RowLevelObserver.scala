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

import io.github.deltarlc.Refusal
import io.github.deltarlc.jni.NativeLibrary
import org.apache.spark.sql.delta.{DeltaConcurrentModificationException, OptimisticTransaction, TransactionExecutionObserver}

import org.apache.spark.internal.Logging

/**
 * Hands out a [[RowLevelTransaction]] where Delta is about to start a transaction of the command in
 * scope, and passes everything else on to the observer it replaced.
 *
 * Every method is forwarded, also those of the chain: a test harness that chains observers
 * would otherwise lose those that follow.
 */
private[rlc] final class RowLevelObserver(
    override protected val replaced: TransactionExecutionObserver,
    command: CommandFacts,
    settings: RowLevelConcurrencyConf.Settings)
  extends TransactionExecutionObserver with ObserverChain with Logging {

  // What starts after the command's own commit is a post-commit hook's, such as auto compaction.
  @volatile private var committed = false
  /** The line that left the last transaction to Delta, with its table; None when it is ours. */
  @volatile private var leftToDelta: Option[(String, Refusal)] = None

  override def startingTransaction(f: => OptimisticTransaction): OptimisticTransaction = {
    val txn = replaced.startingTransaction(f)
    if (committed) txn else swapped(txn)
  }

  private def swapped(txn: OptimisticTransaction): OptimisticTransaction = {
    val refusal = RuleTable.check(RuleTable.start, StartFacts(command, txn))
    leftToDelta = refusal.map(Option(txn.deltaLog).fold("a new table")(_.dataPath.toString) -> _)
    refusal match {
      case None =>
        new RowLevelTransaction(txn.deltaLog, txn.catalogTable, txn.snapshot, command, settings)
      case Some(_) => txn
    }
  }

  /** Tells of a conflict whose transaction was Delta's own. */
  private def failed(conflict: DeltaConcurrentModificationException): Unit =
    if (!committed) leftToDelta.foreach { case (table, refusal) =>
      val reason = RuleTable.countedAs(refusal.rule)
      logInfo(s"Row-level concurrency on $table: conflict (${reason.name}); Delta's own " +
        s"transaction ran, refused: $refusal")
      RowLevelMetrics.current.foreach(_.recordAbort(reason, settings.dryRun))
      if (!settings.dryRun) conflict.addSuppressed(new NotReconciled(refusal))
    }

  override def createChild(): TransactionExecutionObserver = replaced.createChild()
  override def preparingCommit[T](f: => T): T = replaced.preparingCommit(f)
  override def beginDoCommit(): Unit = replaced.beginDoCommit()
  override def beginBackfill(): Unit = replaced.beginBackfill()
  override def beginPostCommit(): Unit = {
    committed = true
    replaced.beginPostCommit()
  }
  override def transactionCommitted(): Unit = replaced.transactionCommitted()
  override def transactionAborted(): Unit = replaced.transactionAborted()

  override def setNextObserver(next: TransactionExecutionObserver): Unit =
    replaced.setNextObserver(next)
  override def advanceToNextThreadObserver(): Unit = replaced.advanceToNextThreadObserver()
}

private[rlc] object RowLevelObserver extends Logging {

  private lazy val nativeLibrary: Boolean = {
    val cause = Option(NativeLibrary.unavailabilityCause)
    cause match {
      case Some(e) =>
        logWarning("Row-level concurrency is enabled but stays off in this JVM, and Delta behaves " +
          s"as without it: ${e.getMessage}", e)
      case None => logInfo(s"Row-level concurrency: ${NativeLibrary.describe}")
    }
    cause.isEmpty
  }

  /**
   * Runs `body`, the execution of `command` on this thread, so that its transaction becomes a
   * row-level one. Does nothing when the feature is off or the native library is missing (G13).
   */
  def inScope[T](settings: Option[RowLevelConcurrencyConf.Settings], command: => CommandFacts)(
      body: => T): T = settings match {
    case Some(values) if nativeLibrary =>
      val before = TransactionExecutionObserver.getObserver
      val ours = new RowLevelObserver(before, command, values)
      TransactionExecutionObserver.setObserver(ours)
      try {
        body
      } catch {
        case e: DeltaConcurrentModificationException =>
          ours.failed(e)
          throw e
      } finally {
        // A chained observer may have moved on by itself; that is not ours to undo.
        if (TransactionExecutionObserver.getObserver eq ours) {
          TransactionExecutionObserver.setObserver(before)
        }
      }
    case _ => body
  }
}
