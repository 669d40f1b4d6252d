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

import org.apache.spark.sql.delta.actions.{AddFile, FileAction, RemoveFile}

/**
 * The safeguards of a merge, each as a method, so that a test can take out one at a time and see
 * that the serializability checker finds it missing. Production has this one policy: every rule is
 * enforced.
 */
private[rlc] class ResolutionPolicy {

  /** Whether the line `ruleId` of the rule table is checked. */
  def enforces(ruleId: String): Boolean = true

  /** Whether each winner's tombstone must name the entry that is live before it (P1). */
  def requiresLinks: Boolean = true

  /** Whether Delta's checks do not see this action of a winner. */
  def hides(action: FileAction, resolved: String => Boolean): Boolean = resolved(action.path)

  /**
   * The entry that the rebased commit starts from. The winner's, because the loser's carries row
   * ids that Delta's earlier phases may have assigned anew.
   */
  def rebasedEntry(own: AddFile, live: AddFile): AddFile = live

  /** The tombstone that the rebased commit writes: of the live entry, or two would be live. */
  def rebasedTombstone(own: RemoveFile, live: AddFile): RemoveFile =
    live.removeWithTimestamp(
      own.deletionTimestamp.getOrElse(System.currentTimeMillis()), own.dataChange)
      .copy(stats = own.stats, tags = Option(live.tags).filter(_.nonEmpty).orNull)

  /**
   * A merged bitmap and its cardinality for a file whose bits violate P4; None, as there is none.
   * Absent bitmaps are empty arrays.
   */
  def mergeRegardless(
      base: Array[Byte], current: Array[Byte], winner: Array[Byte]): Option[(Array[Byte], Long)] =
    None
}

private[rlc] object ResolutionPolicy {
  private val enforced = new ResolutionPolicy
  @volatile private var inForce = enforced

  /** The policy of this JVM. */
  def current: ResolutionPolicy = inForce

  /** Runs `body` with a weaker policy for the whole JVM. For tests of the checker alone. */
  def withMutant[T](mutant: ResolutionPolicy)(body: => T): T = {
    inForce = mutant
    try body finally inForce = enforced
  }
}
