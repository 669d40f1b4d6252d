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
import org.apache.spark.sql.delta.actions.{AddFile, DeletionVectorDescriptor, RemoveFile}

/**
 * Puts a loser's actions on top of the winners' post-image.
 *
 * Of a file both sides changed, the tombstone names the entry that is live after the last winner,
 * or the log would keep two live entries of one path; and the new entry is the winner's with the
 * merged DV. The change feed of the commit stays this statement's own rows, as it is derived from
 * the difference of the two DVs.
 *
 * Everything is made from the entries the loser first wanted to commit, never from those of an
 * earlier pass: a file that pass had to remove whole can be back, when a RESTORE won since.
 */
private[rlc] object Rebase {

  /**
   * A file both sides changed.
   *
   * @param own what the loser first wanted to commit
   * @param live the file's entry after the last winner
   * @param merged its merged DV; None when no row is left
   */
  final case class Target(
      own: LoserRole.Touched, live: AddFile, merged: Option[DeletionVectorDescriptor])

  /** `info` with the entries of `targets`, by path, replaced. */
  def actions(
      info: CurrentTransactionInfo, targets: Map[String, Target]): CurrentTransactionInfo =
    if (targets.isEmpty) {
      info
    } else {
      info.copy(actions = info.actions.flatMap {
        case a: AddFile if targets.contains(a.path) => None
        // Every pass has the tombstone, also one that removes the file whole.
        case r: RemoveFile if targets.contains(r.path) =>
          val target = targets(r.path)
          target.merged.map(entry(target, _)).toSeq :+
            ResolutionPolicy.current.rebasedTombstone(target.own.removed, target.live)
        case other => Some(other)
      })
    }

  private def entry(target: Target, merged: DeletionVectorDescriptor): AddFile = {
    val Target(LoserRole.Touched(_, own), live, _) = target
    // With a DV, stats must have wide bounds and the number of rows (Delta protocol, "Per-file
    // Statistics"). Delta's own DML writes both; another engine's entry may have neither, and
    // turning tight bounds into wide ones is not a matter of the flag alone: null counts change
    // their meaning.
    val stats =
      if (live.numPhysicalRecords.isDefined && live.tightBounds.contains(false)) live.stats
      else own.stats
    // Read from the log, absent tags are an empty map, which would be written.
    val tags = Option(live.tags).filter(_.nonEmpty).orNull
    ResolutionPolicy.current.rebasedEntry(own, live)
      .copy(dataChange = own.dataChange, stats = stats, tags = tags, deletionVector = merged)
  }

  /** How a file that the loser changed came out: with a merged DV, or removed whole. */
  final case class Outcome(own: LoserRole.Touched, whole: Boolean)

  /**
   * The statement's own `operationMetrics` made to tell what its commit does now, which is what a
   * serial run would have written. Against Delta's counting (an updated DV counts as added and as
   * removed) two things can change for a file: its tombstone has a DV where there was none before,
   * and the file goes where it was to stay.
   *
   * @param kind DELETE, UPDATE or MERGE: UPDATE counts a file as removed in either case
   * @param outcomes of all files that any pass rebased
   */
  def metrics(
      own: Map[String, String], kind: String, outcomes: Seq[Outcome]): Map[String, String] = {
    val (whole, shrunk) = outcomes.partition(_.whole)
    def withoutDv(files: Seq[Outcome]): Int =
      files.count(f => !WinnerChains.hasRows(f.own.removed.deletionVector))
    val updated = withoutDv(shrunk) - (whole.size - withoutDv(whole))
    val removedFiles = if (kind == "UPDATE") 0 else whole.size
    val changes = Map(
      "numDeletionVectorsAdded" -> -whole.size.toLong,
      "numDeletionVectorsRemoved" -> withoutDv(outcomes).toLong,
      "numDeletionVectorsUpdated" -> updated.toLong,
      "numRemovedFiles" -> removedFiles.toLong)
    val ofMerge = Map(
      "numTargetFilesRemoved" -> removedFiles.toLong,
      "numTargetBytesRemoved" -> whole.flatMap(_.own.removed.size).sum)
    val targeted = changes.map { case (name, by) => name.replace("num", "numTarget") -> by }
    val all = changes ++ targeted ++ ofMerge
    own.map { case (name, value) =>
      val by = all.getOrElse(name, 0L)
      name -> value.toLongOption.filter(_ => by != 0).fold(value)(n => (n + by).toString)
    }
  }
}
