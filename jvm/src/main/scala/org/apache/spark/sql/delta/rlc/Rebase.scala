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

import org.apache.spark.sql.delta.CurrentTransactionInfo
import org.apache.spark.sql.delta.actions.{AddFile, CommitInfo, DeletionVectorDescriptor, RemoveFile}

/**
 * Puts a loser's actions on top of the winners' post-image.
 *
 * Of a file both sides changed, the tombstone names the entry that is live after the last winner,
 * or the log would keep two live entries of one path; and the new entry is the winner's with the
 * merged DV. The change feed of the commit stays this statement's own rows, as it is derived from
 * the difference of the two DVs.
 */
private[rlc] object Rebase {

  /** A file both sides changed: where it stands, and its merged DV; None when no row is left. */
  final case class Target(live: AddFile, merged: Option[DeletionVectorDescriptor])

  def apply(info: CurrentTransactionInfo, targets: Map[String, Target]): CurrentTransactionInfo =
    if (targets.isEmpty) {
      info
    } else {
      val own = info.actions.collect { case r: RemoveFile if targets.contains(r.path) => r }
      val actions = info.actions.flatMap {
        case a: AddFile if targets.contains(a.path) =>
          val target = targets(a.path)
          target.merged.map(dv => entry(a, target.live, dv))
        case r: RemoveFile if targets.contains(r.path) =>
          Some(ResolutionPolicy.current.rebasedTombstone(r, targets(r.path).live))
        case other => Some(other)
      }
      info.copy(
        actions = actions,
        commitInfo = info.commitInfo.map(patchMetrics(_, own, targets)))
    }

  private def entry(own: AddFile, live: AddFile, merged: DeletionVectorDescriptor): AddFile = {
    // With a DV, stats must have wide bounds and the number of rows (Delta protocol, "Per-file
    // Statistics"). Delta's own DML writes both; another engine's entry may have neither, and
    // turning tight bounds into wide ones is not a matter of the flag alone: null counts change
    // their meaning.
    val stats =
      if (live.numPhysicalRecords.isDefined && live.tightBounds.contains(false)) live.stats
      else own.stats
    ResolutionPolicy.current.rebasedEntry(own, live)
      .copy(dataChange = own.dataChange, stats = stats, deletionVector = merged)
  }

  /**
   * Makes the history tell what this commit does now. Against Delta's own counting (an updated DV
   * counts as added and as removed) two things can change for a file: its tombstone has a DV where
   * there was none before, and the file goes where it was to stay.
   */
  private def patchMetrics(
      commitInfo: CommitInfo,
      own: Seq[RemoveFile],
      targets: Map[String, Target]): CommitInfo = {
    val (whole, shrunk) = own.partition(r => targets(r.path).merged.isEmpty)
    val wholeWithoutDv = whole.count(_.deletionVector == null)
    val shrunkWithoutDv = shrunk.count(_.deletionVector == null)
    val changes = Seq(
      "DeletionVectorsAdded" -> -whole.size.toLong,
      "DeletionVectorsRemoved" -> (wholeWithoutDv + shrunkWithoutDv).toLong,
      "DeletionVectorsUpdated" ->
        (shrunkWithoutDv - (whole.size - wholeWithoutDv)).toLong)
      .flatMap { case (name, change) => Seq(s"num$name" -> change, s"numTarget$name" -> change) } ++
      Seq(
        "numRemovedFiles" -> whole.size.toLong,
        "numTargetFilesRemoved" -> whole.size.toLong,
        "numTargetBytesRemoved" -> whole.flatMap(_.size).sum)
    val patched = commitInfo.operationMetrics.map { metrics =>
      changes.foldLeft(metrics) { case (result, (name, change)) =>
        result.get(name).flatMap(_.toLongOption) match {
          case Some(value) if change != 0 => result.updated(name, (value + change).toString)
          case _ => result
        }
      }
    }
    commitInfo.copy(operationMetrics = patched)
  }
}
