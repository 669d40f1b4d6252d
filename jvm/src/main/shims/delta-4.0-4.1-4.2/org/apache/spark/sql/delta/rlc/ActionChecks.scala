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
import org.apache.spark.sql.delta.actions.{Action, AddFile, RemoveFile}

import org.apache.spark.sql.SparkSession

/**
 * Checks of a commit's actions. Delta checks them for duplicates since 4.3, so up to 4.2 that is
 * done here.
 */
private[rlc] object ActionChecks {

  /** Delta's checks of one winner. */
  def run(checker: ConflictChecker): CurrentTransactionInfo =
    checker.checkConflicts()

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

/** Methods of an observer's chain that not every version has. */
private[rlc] trait ObserverChain extends TransactionExecutionObserver {
  protected def replaced: TransactionExecutionObserver
}
