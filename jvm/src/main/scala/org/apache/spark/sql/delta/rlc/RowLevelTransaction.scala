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

import java.util.Locale

import scala.collection.mutable
import scala.util.control.NonFatal

import io.github.deltarlc.{Refusal, Resolution, RowLevelConcurrency}
import org.apache.spark.sql.delta._
import org.apache.spark.sql.delta.actions._
import org.apache.spark.sql.delta.stats.DeltaScan
import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.Expression

/**
 * Delta's transaction, which on a lost race first looks whether the winners changed other rows.
 *
 * Delta's own [[ConflictChecker]] decides every conflict, as always; what differs is what it is
 * shown of the winners. Entries of files that are proven to be disjoint (`rowLevelResolvedPaths`)
 * are left out of the winning commits, and after the last winner the transaction's actions are put
 * on top of those files' new state. What is not proven is shown, and aborts as on stock Delta.
 *
 * Lives in Delta's package for [[CurrentTransactionInfo]] and [[WinningCommitSummary]], private to
 * it at v4.4.0, which its conflict resolution passes around. What differs between versions of Delta
 * is in jvm/src/main/shims: [[ConflictPass]], [[Winners]], [[ActionChecks]], [[OwnCommit]].
 *
 * @param command the statement that runs in this transaction
 * @param settings its confs, read when it started
 */
private[rlc] class RowLevelTransaction(
    override val deltaLog: DeltaLog,
    override val catalogTable: Option[CatalogTable],
    override val snapshot: Snapshot,
    command: CommandFacts,
    settings: RowLevelConcurrencyConf.Settings)
  extends OptimisticTransaction(deltaLog, catalogTable, snapshot)
  with ConflictPass with OwnCommit {
  import RowLevelTransaction._

  // ---- G9: a DML command finds its rows through filterFiles; whatever comes here is another read

  @volatile private var sawOtherScan = false

  override def filesForScan(filters: Seq[Expression], keepNumRecords: Boolean): DeltaScan = {
    sawOtherScan = true
    super.filesForScan(filters, keepNumRecords)
  }

  override def filesForScan(limit: Long, partitionFilters: Seq[Expression]): DeltaScan = {
    sawOtherScan = true
    super.filesForScan(limit, partitionFilters)
  }

  override def filesWithStatsForScan(partitionFilters: Seq[Expression]): DataFrame = {
    sawOtherScan = true
    super.filesWithStatsForScan(partitionFilters)
  }

  // ---- conflict resolution

  private val memory = new PassMemory

  override protected def resolvePass(
      info: CurrentTransactionInfo,
      firstWinner: Long,
      lastWinner: Long,
      commitFiles: Seq[FileStatus],
      isolationLevel: IsolationLevel)(
      stock: => CurrentTransactionInfo): CurrentTransactionInfo = {
    memory.passes += 1
    def pass(lost: LostRace): Pass =
      new Pass(lost.info, lost.firstWinner, lastWinner, lost.commitFiles, isolationLevel)
    val lost = LostRace(info, firstWinner, commitFiles)
    if (settings.dryRun) {
      memory.lost = Some(memory.lost.fold(lost)(_.andThen(lost)))
      try {
        stock
      } catch {
        case e: DeltaConcurrentModificationException =>
          withoutConsequences(memory.lost.foreach(pass(_).rehearse(e)))
          throw e
      }
    } else {
      pass(lost).resolveAndReport(stock)
    }
  }

  /** Runs what a dry run does beside Delta, whose conflict follows as it would without us. */
  private def withoutConsequences(dryRun: => Unit): Unit =
    try {
      dryRun
    } catch {
      case _: InterruptedException => Thread.currentThread().interrupt()
      case e @ (NonFatal(_) | _: LinkageError) =>
        logWarning(s"A dry run on ${deltaLog.dataPath} failed", e)
    }

  /** One pass: all commits that won since the transaction read, or since the pass before. */
  private final class Pass(
      info: CurrentTransactionInfo,
      firstVersion: Long,
      lastVersion: Long,
      commitFiles: Seq[FileStatus],
      isolationLevel: IsolationLevel) {

    private val startNanos = System.nanoTime()
    private val deadline = new Deadline(settings.maxResolutionTimeMs)
    private val hadoopConf = deltaLog.newDeltaHadoopConf()
    private val verdicts = new FileVerdicts(
      new DeletionVectorReader(deltaLog.dataPath, hadoopConf), settings, memory.bitmaps)
    private val writer =
      new MergedDeletionVectorWriter(deltaLog.dataPath, hadoopConf, info.metadata)
    private var refused = Vector.empty[Refusal]
    private var shared = Seq.empty[SharedFile]
    private var decided = Map.empty[String, FileVerdict]
    private var bytesWritten = 0L
    private var earlierAttemptsFailed = false
    private val mergedBefore = memory.hasResolvedFiles

    /** Merges what can be merged; `stock` is Delta's own resolution, for when nothing can. */
    def resolveAndReport(stock: => CurrentTransactionInfo): CurrentTransactionInfo = {
      val resolved =
        try {
          examine().fold(stock)(rebase)
        } catch {
          case e: Throwable =>
            if (e.isInstanceOf[DeltaConcurrentModificationException]) {
              refused.take(MAX_REASONS).foreach(r => e.addSuppressed(new NotReconciled(r)))
            }
            afterAbort()
            report(Some(e))
            throw e
        }
      report(failure = None)
      resolved
    }

    /** Reports what [[resolveAndReport]] would have made of `conflict`, and writes nothing. */
    def rehearse(conflict: DeltaConcurrentModificationException): Unit = report(
      try {
        if (examine().isDefined) None else Some(conflict)
      } catch {
        case NonFatal(e) => Some(e)
      })

    /** All that is found out before anything is written; None when it is Delta's business alone. */
    private def examine(): Option[Examined] = {
      val logBytes = commitFiles.map(_.getLen).sum
      gate(info.protocol, info.metadata).orElse {
        if (logBytes > settings.maxDvBytes) {
          Some(Refusal("BUDGET", None, s"the winning commits have $logBytes bytes, " +
            s"${RowLevelConcurrencyConf.MAX_DV_BYTES.key} = ${settings.maxDvBytes}"))
        } else {
          None
        }
      } match {
        case Some(refusal) =>
          refused :+= refusal
          if (memory.dvFiles.nonEmpty) {
            learnOfEarlierAttempt(Winners.read(deltaLog, commitFiles.head))
          }
          None
        case None =>
          val winners = commitFiles.map(Winners.read(deltaLog, _))
          // Our own commit, whose success was lost on the way.
          if (ownCommit(winners.head, firstVersion, info).isDefined) None
          else Some(examine(winners))
      }
    }

    private def gate(protocol: Protocol, metadata: Metadata): Option[Refusal] =
      RuleTable.check(RuleTable.conflict,
        ConflictFacts(command, info, protocol, metadata, isolationLevel, sawOtherScan))

    private def examine(winners: Seq[WinningCommitSummary]): Examined = {
      learnOfEarlierAttempt(winners.head)
      val chains = follow(winners)
      val files = gate(
        winners.flatMap(_.protocol).lastOption.getOrElse(info.protocol),
        winners.flatMap(_.metadataUpdates).lastOption.getOrElse(info.metadata)) match {
        case Some(refusal) =>
          refused :+= refusal
          Nil
        case None => sharedFiles(chains, winners)
      }
      shared = files
      // First as if all files were disjoint: a conflict that no DV can settle costs no read.
      val optimistic = runChecks(winners, files.map(_.path).toSet)
      decided = verdicts.decide(files, deadline)
      val doubtful = decided.values.collect { case FileVerdict.Refuse(refusal) => refusal }
      refused ++= doubtful
      doubtful.take(MAX_REASONS).foreach(logRefusal)
      val checked =
        if (doubtful.isEmpty) optimistic
        else runChecks(winners, resolved)
      Examined(winners, chains, files, checked)
    }

    /** The version this transaction tried to write is somebody else's: its attempt failed. */
    private def learnOfEarlierAttempt(firstWinner: WinningCommitSummary): Unit =
      earlierAttemptsFailed = firstWinner.commitInfo.flatMap(_.txnId).exists(_ != txnId)

    private def resolved(path: String): Boolean =
      decided.get(path).exists(!_.isInstanceOf[FileVerdict.Refuse])

    // -- the log's structure

    private def follow(winners: Seq[WinningCommitSummary]): Map[String, WinnerChain] = {
      val mentioned = mutable.HashSet.empty[String]
      winners.foreach(_.actions.foreach {
        case a: AddFile => mentioned += a.path
        case r: RemoveFile => mentioned += r.path
        case _ =>
      })
      val readEntries = info.readFiles.iterator.filter(f => mentioned(f.path))
        .map(f => f.path -> KnownEntry(f.deletionVector)).toMap
      val removedEntries = ownRemoves.view.mapValues(r => KnownEntry(r.deletionVector))
      WinnerChains.follow(
        winners,
        known = path => memory.live(path).orElse(removedEntries.get(path))
          .orElse(readEntries.get(path)),
        bornBefore = memory.born,
        canonical = deltaLog.getCanonicalPathFunction(runsOnExecutors = false))
    }

    private lazy val ownRemoves: Map[String, RemoveFile] =
      info.actions.collect { case r: RemoveFile => r.path -> r }.toMap

    private lazy val ownAdds: Map[String, AddFile] =
      info.actions.collect { case a: AddFile => a.path -> a }.toMap

    private def role(path: String): LoserRole =
      memory.role(path).getOrElse {
        (ownRemoves.get(path), ownAdds.get(path)) match {
          case (Some(removed), Some(added)) if WinnerChains.hasRows(added.deletionVector) =>
            LoserRole.Touched(removed, added)
          case (None, None) => LoserRole.Untouched
          case _ => LoserRole.Other
        }
      }

    /** The files whose structure allows a merge; the others are refused with their reason. */
    private def sharedFiles(
        chains: Map[String, WinnerChain],
        winners: Seq[WinningCommitSummary]): Seq[SharedFile] = {
      val firstSkippedAppend =
        if (isolationLevel == WriteSerializable) memory.firstAppend.orElse(firstBlindAppend(winners))
        else None
      chains.toSeq.flatMap { case (path, chain) =>
        val facts = PathFacts(path, chain, role(path), firstSkippedAppend)
        val refusal = RuleTable.check(RuleTable.structure, facts, Some(path))
        // New files of the winners are no merge that failed; Delta's append check names them.
        if (!chain.born) refused ++= refusal
        for (live <- chain.live if refusal.isEmpty && WinnerChains.hasRows(live.deletionVector))
          yield {
            val base = facts.loser match {
              case LoserRole.Touched(removed, _) => removed.deletionVector
              case _ => memory.base(path).getOrElse(chain.base)
            }
            SharedFile(path, base, facts.loser, live)
          }
      }
    }

    private def firstBlindAppend(winners: Seq[WinningCommitSummary]): Option[Long] =
      winners.find(_.blindAppendAddedFiles.nonEmpty).map(_.commitVersion)

    // -- Delta's checks

    /**
     * Delta's phases and checks for each winner, with the entries of `resolved` files out of sight.
     * A row tracking backfill is shown whole: Delta skips its entries in the file checks, and
     * takes row ids from them.
     */
    private def runChecks(
        winners: Seq[WinningCommitSummary], resolved: String => Boolean): CurrentTransactionInfo =
      winners.foldLeft(info) { (current, winner) =>
        val shown = if (winner.isRowTrackingBackfillTxn) winner else withoutFiles(winner, resolved)
        val checked = ownCommit(winner, firstVersion, current).getOrElse {
          ActionChecks.run(Winners.checker(spark, current, shown, isolationLevel))
        }
        logInfo(s"No conflicts in version ${winner.commitVersion}")
        checked
      }

    private def withoutFiles(
        winner: WinningCommitSummary, resolved: String => Boolean): WinningCommitSummary =
      Winners.withActions(winner, winner.actions.filter {
        case file @ (_: AddFile | _: RemoveFile) =>
          !ResolutionPolicy.current.hides(file.asInstanceOf[FileAction], resolved)
        case _ => true
      })

    // -- the rebase

    private def rebase(examined: Examined): CurrentTransactionInfo = {
      val Examined(winners, chains, files, checked) = examined
      val merged = decided.toSeq.collect { case (path, FileVerdict.Merge(bitmap)) =>
        path -> bitmap
      }.sortBy(_._1)
      val descriptors =
        try {
          Interruption.check()
          writer.write(merged)
        } catch {
          case NonFatal(e) if !Interruption.is(e) =>
            val refusal = Refusal("IO", None, s"cannot write the merged deletion vectors: $e")
            refused :+= refusal
            logRefusal(refusal)
            decided = Map.empty
            runChecks(winners, Set.empty)
            // Delta finds no conflict where it is shown all there is: this cannot be.
            throw e
        }
      bytesWritten = merged.map(_._2.bytes.length.toLong).sum
      val rebasedInfo =
        try {
          // The last moment at which it is certain that no commit names what was written.
          Interruption.check()
          validate(rebased(checked, files, descriptors))
        } catch {
          case e: Throwable =>
            writer.delete(writer.files)
            throw e
        }
      remember(winners, chains, files, rebasedInfo)
      rebasedInfo
    }

    private def rebased(
        checked: CurrentTransactionInfo,
        files: Seq[SharedFile],
        descriptors: Map[String, DeletionVectorDescriptor]): CurrentTransactionInfo = {
      val targets = files.collect { case SharedFile(path, _, own: LoserRole.Touched, live)
          if resolved(path) =>
        path -> Rebase.Target(own, live, descriptors.get(path))
      }.toMap
      val outcomes = memory.outcomes ++ targets.map { case (path, target) =>
        path -> Rebase.Outcome(target.own, whole = target.merged.isEmpty)
      }
      memory.outcomes = outcomes
      if (memory.ownMetrics.isEmpty) {
        memory.ownMetrics = checked.commitInfo.flatMap(_.operationMetrics)
      }
      val commitInfo = checked.commitInfo.map(_.copy(operationMetrics =
        memory.ownMetrics.map(Rebase.metrics(_, command.kind, outcomes.values.toSeq))))
      Rebase.actions(checked, targets).copy(commitInfo = commitInfo)
    }

    /** Delta checks a changed action set again, and this is one. */
    private def validate(rebased: CurrentTransactionInfo): CurrentTransactionInfo = {
      ActionChecks.validate(spark, rebased.actions, deltaLog, rebased.op)
      rebased
    }

    private def remember(
        winners: Seq[WinningCommitSummary],
        chains: Map[String, WinnerChain],
        files: Seq[SharedFile],
        rebased: CurrentTransactionInfo): Unit = {
      memory.firstAppend = memory.firstAppend.orElse(firstBlindAppend(winners))
      memory.addBorn(chains.collect { case (path, chain) if chain.born => path })
      files.filter(file => resolved(file.path)).foreach(memory.update)
      val earlier = memory.dvFiles
      memory.dvFiles ++= writer.files
      if (earlierAttemptsFailed && earlier.nonEmpty) {
        // Replaced by this pass, and no commit can name them.
        val named = rebased.actions.collect { case a: AddFile => a.deletionVector }
          .filter(dv => dv != null && dv.isOnDisk).map(_.absolutePath(deltaLog.dataPath)).toSet
        val stale = earlier -- named
        memory.dvFiles --= stale
        writer.delete(stale.toSeq)
      }
    }

    /** The transaction is over: merged DVs of its earlier passes go, if no commit can name them. */
    def afterAbort(): Unit = if (earlierAttemptsFailed) {
      writer.delete(memory.dvFiles.toSeq)
      memory.dvFiles = Set.empty
    }

    // -- what people see

    private def logRefusal(refusal: Refusal): Unit = {
      val message = s"Not reconciled in ${deltaLog.dataPath}: $refusal"
      refusal.rule match {
        case "IO" | "CODEC" | "BUDGET" | "P6" => logWarning(message)
        case _ => logInfo(message)
      }
    }

    private def report(failure: Option[Throwable]): Unit = {
      val rebased = failure.isEmpty
      def paths(of: PartialFunction[FileVerdict, Unit]): Seq[String] =
        decided.collect { case (path, verdict) if rebased && of.isDefinedAt(verdict) => path }
          .toSeq.sorted
      def cardinality(dv: DeletionVectorDescriptor): Long = Option(dv).fold(0L)(_.cardinality)
      val rows = shared.map(file => (file, decided.get(file.path))).collect {
        case (file, Some(FileVerdict.Merge(union))) if rebased => (file, union.cardinality)
        case (file, Some(FileVerdict.RemoveWhole)) if rebased =>
          (file, file.live.numPhysicalRecords.getOrElse(0L))
      }
      val resolution = Resolution(
        tablePath = deltaLog.dataPath.toString,
        readVersion = readVersion,
        firstWinner = firstVersion,
        lastWinner = lastVersion,
        pass = memory.passes,
        dryRun = settings.dryRun,
        rebased = rebased,
        abortReason = failure.map(AbortReason.of(refused, _).name),
        afterRebase = mergedBefore,
        merged = paths { case FileVerdict.Merge(_) => },
        removed = paths { case FileVerdict.RemoveWhole => },
        untouched = paths { case FileVerdict.Keep => },
        ownRows = rows.map { case (file, _) =>
          cardinality(file.current) - cardinality(file.base)
        }.sum,
        unionRows = rows.map(_._2).sum,
        refusals = refused,
        dvReads = verdicts.read.dvReads,
        bytesRead = verdicts.read.bytesRead,
        dvFilesWritten = if (rebased) writer.files.map(_.getName) else Nil,
        bytesWritten = if (rebased) bytesWritten else 0L,
        micros = (System.nanoTime() - startNanos) / 1000)
      logInfo(line(resolution, failure))
      recordDeltaEvent(deltaLog, "delta.rowLevelConcurrency.resolve", data = resolution)
      RowLevelMetrics.current.foreach(_.record(resolution))
      RowLevelConcurrency.tell(resolution)
    }

    private def line(r: Resolution, failure: Option[Throwable]): String = {
      val outcome = (r.abortReason, r.dryRun) match {
        case (None, false) => "resolved"
        case (None, true) => "conflict that merging would have resolved (dry run)"
        case (Some(reason), false) => s"conflict ($reason)"
        case (Some(reason), true) => s"conflict, with merging too ($reason; dry run)"
      }
      val error = failure.filterNot(_.isInstanceOf[DeltaConcurrentModificationException])
      s"Row-level concurrency on ${r.tablePath}: versions ${r.firstWinner} to ${r.lastWinner} " +
        s"$outcome in pass ${r.pass}; ${r.merged.size} files merged, ${r.removed.size} removed " +
        s"whole, ${r.untouched.size} untouched, ${r.ownRows} rows of this statement in a union " +
        s"of ${r.unionRows}, ${r.dvReads} deletion vectors (${r.bytesRead} bytes) read, " +
        s"${r.bytesWritten} bytes written, ${String.format(Locale.ROOT, "%.1f", r.micros / 1e3)} " +
        s"ms; " +
        (if (refused.isEmpty) "nothing refused" else s"refused: ${refused.take(5).mkString("; ")}") +
        error.fold("")(e => s"; failed: $e")
    }
  }
}

private[rlc] object RowLevelTransaction {
  /** What an attempt to commit met: the winners' commits, and what the transaction wanted then. */
  final case class LostRace(
      info: CurrentTransactionInfo, firstWinner: Long, commitFiles: Seq[FileStatus]) {
    /** As one race, seen from where this one began. */
    def andThen(later: LostRace): LostRace = copy(commitFiles = commitFiles ++ later.commitFiles)
  }

  /** A pass as far as it can be taken without writing. */
  private final case class Examined(
      winners: Seq[WinningCommitSummary],
      chains: Map[String, WinnerChain],
      files: Seq[SharedFile],
      checked: CurrentTransactionInfo)

  /** A pass can refuse thousands of files for one reason; this many are told. */
  private val MAX_REASONS = 10
}

/**
 * Why Delta's conflict was not avoided; suppressed in Delta's exception, whose class and text stay
 * as they are. Has no stack trace of its own.
 */
private[rlc] final class NotReconciled(refusal: Refusal)
  extends RuntimeException(s"not reconciled, $refusal", null, false, false)

/** What a transaction must know of its earlier passes. */
private[rlc] final class PassMemory {
  private val files = mutable.Map.empty[String, SharedFile]
  private val bornPaths = mutable.Set.empty[String]

  /** Passes so far, the current one included. */
  var passes = 0
  /** The first blind append among all winners so far. */
  var firstAppend: Option[Long] = None
  /** DV files this transaction wrote in passes and has not deleted. */
  var dvFiles: Set[Path] = Set.empty
  /** How the files came out that this transaction and winners changed, by path. */
  var outcomes: Map[String, Rebase.Outcome] = Map.empty
  /** The statement's own operation metrics, as they were before the first rebase. */
  var ownMetrics: Option[Map[String, String]] = None
  /** Bitmaps by DV id that a later pass compares with again. */
  val bitmaps: mutable.Map[String, FileVerdicts.Slice] = mutable.Map.empty

  /** All races so far as one; kept in a dry run, which looks at them when Delta has a conflict. */
  var lost: Option[RowLevelTransaction.LostRace] = None

  /** Whether a pass so far has merged or let pass a file. */
  def hasResolvedFiles: Boolean = files.nonEmpty

  /** The live entry of a file that an earlier pass resolved. */
  def live(path: String): Option[KnownEntry] =
    files.get(path).map(state => KnownEntry(state.live.deletionVector))

  /** What the loser did to it, before any rebase. */
  def role(path: String): Option[LoserRole] = files.get(path).map(_.role)

  /** The DV the file had when the loser read the table; Some(null) for none. */
  def base(path: String): Option[DeletionVectorDescriptor] = files.get(path).map(_.base)

  /** Whether a winner of an earlier pass added the file. */
  def born(path: String): Boolean = bornPaths(path)

  def addBorn(paths: Iterable[String]): Unit = bornPaths ++= paths

  def update(file: SharedFile): Unit = files(file.path) = file
}
