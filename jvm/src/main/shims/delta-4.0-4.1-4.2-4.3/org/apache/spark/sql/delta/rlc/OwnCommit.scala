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
import org.apache.spark.sql.delta.actions.Protocol

/**
 * A commit whose success was lost on the way, which Delta up to 4.3 does not recognise among the
 * winners. It ends in Delta's own conflict as without this library: a file it changed has this
 * transaction's rows in its deletion vector (P5) or is removed (P1), and its new files are new to
 * Delta's append check.
 */
private[rlc] trait OwnCommit extends OptimisticTransaction {
  /** Delta's answer where `winner` is this transaction's own commit; None where it is not. */
  protected def ownCommit(
      winner: WinningCommitSummary,
      firstWinner: Long,
      info: CurrentTransactionInfo): Option[CurrentTransactionInfo] =
    None
}

private[rlc] object AdaptiveMetadata {
  /** Whether the table's file actions carry references into an adaptive metadata tree (G4). */
  def isUsed(protocol: Protocol): Boolean = false
}
