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

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.sql.delta.WinningCommitSummary
import org.apache.spark.sql.delta.actions.{Action, AddFile, DeletionVectorDescriptor, RemoveFile}

/**
 * What the winners did to one file, read off their commits in log order.
 *
 * @param base the DV the file had before the first of them, null when it had none
 * @param live the file's entry after the last of them
 * @param lastVersion the last winner that mentions the file
 * @param born a winner added the file
 * @param broken why the entries do not follow one from the other; None when they do
 */
private[rlc] final case class WinnerChain(
    base: DeletionVectorDescriptor,
    live: Option[AddFile],
    lastVersion: Long,
    born: Boolean = false,
    broken: Option[String] = None)

/** How the loser stands to a file that winners changed. */
private[rlc] sealed trait LoserRole

private[rlc] object LoserRole {
  /** It replaced the file's DV: `removed` is the entry it read, `added` the one it wrote. */
  final case class Touched(removed: RemoveFile, added: AddFile) extends LoserRole
  /** It changed nothing in the file, whether it read it or not. */
  case object Untouched extends LoserRole
  /** It removed the file, or wrote it without a DV. */
  case object Other extends LoserRole
}

/**
 * Everything the structural path rules look at.
 *
 * @param firstSkippedAppend the first blind append that Delta's append check let pass under
 *                           WriteSerializable; None under Serializable, which lets none pass
 */
private[rlc] final case class PathFacts(
    path: String,
    chain: WinnerChain,
    loser: LoserRole,
    firstSkippedAppend: Option[Long])

private[rlc] object WinnerChains {

  /**
   * Follows every file that `winners` mention from entry to entry. An entry is a pair of path and
   * DV id, as in Delta's replay; paths are compared as the log spells them, as Delta does.
   *
   * A winner's structure decides, not the name of its operation. The one exception is Delta's own:
   * a row tracking backfill adds live entries again without removing them, and Delta's checks skip
   * it by its name.
   *
   * @param known the entry that the loser knows to be live before the winners: the one it removed
   *              or read, or the one an earlier pass ended with
   * @param bornBefore files that winners of earlier passes added
   * @param canonical a path as Delta's replay spells it. Every path the loser knows is spelled so;
   *                  a winner's that is not could be one of them under another name
   */
  def follow(
      winners: Seq[WinningCommitSummary],
      known: String => Option[KnownEntry],
      bornBefore: String => Boolean,
      canonical: String => String): Map[String, WinnerChain] = {
    val chains = mutable.LinkedHashMap.empty[String, WinnerChain]
    winners.foreach { winner =>
      byPath(winner.actions).foreach { case (path, FileEntries(added, removed)) =>
        val version = winner.commitVersion
        val before = chains.get(path)
        val liveBefore = before match {
          case Some(chain) => chain.live.map(add => KnownEntry(add.deletionVector))
          case None => known(path)
        }
        val base = before.map(_.base)
          .orElse(liveBefore.map(_.deletionVector))
          .orElse(removed.headOption.map(_.deletionVector))
          .orNull
        val born = before.exists(_.born) || bornBefore(path) ||
          (before.isEmpty && liveBefore.isEmpty && removed.isEmpty)
        val step = (added, removed) match {
          case _ if !isSpelled(path, canonical) =>
            Some(s"version $version spells the path in a way of its own")
          case (Seq(add), Seq(remove)) if !sameFile(add, remove) =>
            Some(s"version $version adds the file again with another size or partition")
          case (Seq(add), Seq(remove)) if hasRows(add.deletionVector) =>
            val unlinked = liveBefore.filter(_.id != idOf(remove.deletionVector)).map { live =>
              s"version $version removes the entry with DV ${show(remove.deletionVector)}, the " +
                s"live one has ${show(live.deletionVector)}"
            }
            unlinked.filter(_ => ResolutionPolicy.current.requiresLinks)
          case (Seq(add), Seq()) if winner.isRowTrackingBackfillTxn && liveBefore.isDefined =>
            if (liveBefore.exists(_.id == idOf(add.deletionVector))) None
            else Some(s"version $version adds an entry again that is not the live one")
          case (Seq(add), Seq(_)) =>
            Some(s"version $version adds the file again without a deletion vector")
          case (Seq(_), Seq()) =>
            Some(s"version $version adds the file without removing an entry of it")
          case (Seq(), Seq(_)) =>
            Some(s"version $version removes the file")
          case _ =>
            Some(s"version $version has ${added.size} adds and ${removed.size} removes of the file")
        }
        chains(path) = WinnerChain(
          base, added.headOption, version, born, before.flatMap(_.broken).orElse(step))
      }
    }
    chains.toMap
  }

  /** True when `dv` marks rows; the log can also carry an empty DV, which means none. */
  def hasRows(dv: DeletionVectorDescriptor): Boolean = dv != null && dv.cardinality > 0

  private final case class FileEntries(added: Seq[AddFile], removed: Seq[RemoveFile])

  private def byPath(actions: Seq[Action]): Iterable[(String, FileEntries)] = {
    val entries = mutable.LinkedHashMap.empty[String, FileEntries]
    def at(path: String): FileEntries = entries.getOrElse(path, FileEntries(Nil, Nil))
    actions.foreach {
      case a: AddFile => entries(a.path) = at(a.path).copy(added = at(a.path).added :+ a)
      case r: RemoveFile => entries(r.path) = at(r.path).copy(removed = at(r.path).removed :+ r)
      case _ =>
    }
    entries
  }

  private def isSpelled(path: String, canonical: String => String): Boolean =
    try canonical(path) == path
    catch { case NonFatal(_) => false } // not a URI

  private def sameFile(add: AddFile, remove: RemoveFile): Boolean =
    remove.size.forall(_ == add.size) &&
      (remove.partitionValues == null || remove.partitionValues == add.partitionValues)

  private def idOf(dv: DeletionVectorDescriptor): Option[String] = Option(dv).map(_.uniqueId)

  private def show(dv: DeletionVectorDescriptor): String = idOf(dv).getOrElse("none")
}

/** A live entry of a file; `deletionVector` is null when it has none. */
private[rlc] final case class KnownEntry(deletionVector: DeletionVectorDescriptor) {
  def id: Option[String] = Option(deletionVector).map(_.uniqueId)
}
