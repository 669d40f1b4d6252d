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

package io.github.deltarlc

import java.util.concurrent.CopyOnWriteArrayList

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

/**
 * Why a file, or a whole transaction, was left to Delta's own conflict checks.
 *
 * @param rule the line of the rule table that refused (`G1`..`G13`, `P1`..`P6`), or `BUDGET`,
 *             `IO`, `CODEC` where a limit, the storage or the bytes of a deletion vector did; see
 *             docs/rules.md
 * @param path the data file as the log names it; None when the whole transaction was refused
 * @param detail one sentence for the log, with the values that decided
 */
final case class Refusal(rule: String, path: Option[String], detail: String) {
  override def toString: String = s"$rule${path.fold("")(p => s" [$p]")}: $detail"
}

/**
 * What one pass of conflict resolution did. A transaction has one pass for every time it loses the
 * race; a pass looks at all commits that won since the one before. In a dry run there is one pass,
 * after Delta has found a conflict, and it looks at all commits since the transaction read.
 *
 * @param tablePath the table's root
 * @param readVersion the version the transaction read
 * @param firstWinner first version the pass looked at
 * @param lastWinner last version the pass looked at, inclusive
 * @param pass 1 for the first pass of the transaction
 * @param dryRun true when nothing was merged and Delta's own conflict exception follows whatever
 *               the pass found; everything below then says what merging would have done
 * @param rebased true when the pass ended without a conflict; false when Delta's own conflict
 *                exception follows
 * @param abortReason when it is not rebased, the name under which it is counted: one of those in
 *                    docs/operations.md, such as `overlap`
 * @param afterRebase true when an earlier pass of the transaction had merged or let pass a file
 * @param merged data files that got a merged deletion vector
 * @param removed data files whose last rows the two sides removed together, now removed whole
 * @param untouched data files that winners shrank and this transaction did not change
 * @param ownRows rows of this statement in the files it merged or removed
 * @param unionRows rows that those files have lost now, this statement's and everybody else's
 * @param refusals what was left to Delta's own checks and why; a pass can refuse a file and still
 *                 commit when none of Delta's checks minds
 * @param dvReads deletion vectors read from storage
 * @param bytesRead bytes of those, without the store's frame
 * @param dvFilesWritten file names of the deletion vector files that this pass wrote
 * @param bytesWritten bytes of merged deletion vectors in them
 * @param micros wall time of the pass
 */
final case class Resolution(
    tablePath: String,
    readVersion: Long,
    firstWinner: Long,
    lastWinner: Long,
    pass: Int,
    dryRun: Boolean,
    rebased: Boolean,
    abortReason: Option[String],
    afterRebase: Boolean,
    merged: Seq[String],
    removed: Seq[String],
    untouched: Seq[String],
    ownRows: Long,
    unionRows: Long,
    refusals: Seq[Refusal],
    dvReads: Int,
    bytesRead: Long,
    dvFilesWritten: Seq[String],
    bytesWritten: Long,
    micros: Long)

/** Told of every pass, on the thread of the transaction and before it commits again or fails. */
trait ResolutionListener {
  def onResolution(resolution: Resolution): Unit
}

/**
 * Who wants to be told of row-level resolutions. They are counted by a metrics source of Spark's,
 * `rowLevelConcurrency`; see docs/operations.md.
 */
object RowLevelConcurrency extends Logging {

  private val listeners = new CopyOnWriteArrayList[ResolutionListener]

  /** From now on `listener` hears of every pass. A listener that throws is logged and kept. */
  def addListener(listener: ResolutionListener): Unit = listeners.add(listener)

  /** Takes back [[addListener]]; nothing happens when `listener` was not added. */
  def removeListener(listener: ResolutionListener): Unit = listeners.remove(listener)

  /** Tells the listeners of a pass. For this library's own use. */
  def tell(resolution: Resolution): Unit =
    listeners.asScala.foreach { listener =>
      try listener.onResolution(resolution)
      catch { case NonFatal(e) => logWarning("A resolution listener failed", e) }
    }
}
