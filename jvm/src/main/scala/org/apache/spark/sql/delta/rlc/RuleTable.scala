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
import org.apache.spark.sql.delta._
import org.apache.spark.sql.delta.actions.{Metadata, Protocol}
import org.apache.spark.sql.delta.commands.DeletionVectorUtils

/**
 * One line of the rule table.
 *
 * @param id the name under which a refusal is reported
 * @param countedAs the metric that counts an abort by this line
 * @param condition what must hold
 * @param reason why
 * @param counterexample what goes wrong without it
 * @param violation what is wrong with the facts at hand; None when the condition holds
 */
private[rlc] final case class Rule[-F](
    id: String,
    countedAs: AbortReason,
    condition: String,
    reason: String,
    counterexample: String)(
    val violation: F => Option[String])

/**
 * Under what an abort is counted, coarser than the lines of the table.
 *
 * @param name as it appears in metrics and logs
 * @param meaning for the documentation
 */
private[rlc] sealed abstract class AbortReason(val name: String, val meaning: String)

private[rlc] object AbortReason {
  case object Io extends AbortReason("io",
    "a deletion vector could not be read, or the merged ones not written")
  case object Decode extends AbortReason("decode",
    "a deletion vector is not what the log says")
  case object Budget extends AbortReason("budget",
    "`maxDvBytes` or `maxResolutionTimeMs` was reached")
  case object NotEligible extends AbortReason("notEligible",
    "the table or the statement cannot be merged: no deletion vectors, whole files rewritten")
  case object ContentRead extends AbortReason("contentRead",
    "the statement may depend on rows that it does not change")
  case object Overlap extends AbortReason("overlap",
    "both sides changed the same row")
  case object NotAnExtension extends AbortReason("notAnExtension",
    "a winner did not only take rows away from the file: compaction, RESTORE")
  case object NewFiles extends AbortReason("newFiles",
    "a winner wrote new files that the statement may have to read")
  case object Other extends AbortReason("other",
    "none of these: another check of Delta's, such as for changed metadata, or an error")

  /** All, in the order in which they decide for an abort that has several. */
  val all: Seq[AbortReason] =
    Seq(Io, Decode, Budget, NotEligible, ContentRead, Overlap, NotAnExtension, NewFiles, Other)

  /**
   * The reason for a pass with these refusals that ended in `failure`. The append check is the only
   * one of Delta's that a pass without refusals can fail because of files: removed files of its
   * readers are all refused by P1.
   */
  def of(refusals: Seq[Refusal], failure: Throwable): AbortReason = {
    val reasons = refusals.map(refusal => RuleTable.countedAs(refusal.rule)).toSet
    all.find(reasons).getOrElse(failure match {
      case _: ConcurrentAppendException => NewFiles
      case _ => Other
    })
  }
}

/** What is known when a transaction starts. */
private[rlc] final case class StartFacts(
    command: CommandFacts,
    transaction: OptimisticTransaction)

/** What is known when a transaction has lost the race. */
private[rlc] final case class ConflictFacts(
    command: CommandFacts,
    info: CurrentTransactionInfo,
    protocol: Protocol,
    metadata: Metadata,
    isolationLevel: IsolationLevel,
    sawOtherScan: Boolean)

/**
 * When a loser may be rebased, as one literal table; docs/rules.md shows the same lines.
 *
 * The claim the table protects: the result of every merge equals running the winners first and the
 * loser after them. It holds when what the loser does to a row depends on that row alone, and when,
 * for every file that winners changed and the loser may have read, the winners only took away rows
 * that the loser did not change. So the loser is judged by its command and its reads, and the
 * winners by the structure of their commits alone, never by the name of their operation.
 */
private[rlc] object RuleTable {
  import AbortReason._

  private def when(violated: Boolean)(detail: => String): Option[String] =
    if (violated) Some(detail) else None

  /** No function here: a statement that fails one of these never meets our code. */
  val notOurs: Seq[Rule[Any]] = Seq(
    Rule[Any]("G1", NotEligible,
      "spark.databricks.delta.rowLevelConcurrency.enabled is true when the statement starts",
      "the feature is opt-in, and one statement must not change its mind half way",
      "a pass that masks a file and a later one that does not")(_ => None),
    Rule[Any]("G5", NotEligible,
      "the command is DELETE, UPDATE or MERGE",
      "only these pair each DV with the rows they decided on",
      "OPTIMIZE moves rows: a DV of the old file says nothing of the new one")(_ => None),
    Rule[Any]("G13", NotEligible,
      "the native library is loaded and of this jar's version",
      "it decides on the bits",
      "a library of another layout reads a request wrongly")(_ => None))

  /** Checked when the transaction starts: on failure Delta's own transaction object is used. */
  val start: Seq[Rule[StartFacts]] = Seq(
    Rule[StartFacts]("G2", NotEligible,
      "a plain OptimisticTransaction on an existing table, the command's target",
      "only that class is known to resolve conflicts the way the hook expects",
      "another library's subclass, whose own checks a second subclass would drop") { f =>
      val txn = f.transaction
      when(txn.getClass != classOf[OptimisticTransaction] || txn.deltaLog == null ||
          txn.readVersion < 0 || !txn.deltaLog.isSameLogAs(f.command.target)) {
        s"${txn.getClass.getName} on ${Option(txn.deltaLog).map(_.dataPath)} at " +
          s"version ${txn.readVersion}"
      }
    },
    Rule[StartFacts]("G3", NotEligible,
      "deletion vectors may be written, when the statement starts and when it has lost",
      "a merged DV is a DV",
      "a table that turned them off gets one all the same") { f =>
      when(!DeletionVectorUtils.deletionVectorsWritable(f.transaction.snapshot)) {
        "deletion vectors are off on this table"
      }
    },
    Rule[StartFacts]("G4", NotEligible,
      "the table does not use adaptive metadata",
      "its file actions carry references that nobody has analysed for a rebase",
      "a back reference that names the loser's entry and not the winner's") { f =>
      when(AdaptiveMetadata.isUsed(f.transaction.snapshot.protocol)) {
        "the table uses adaptive metadata"
      }
    })

  /** Checked when the transaction has lost: on failure every file is left to Delta's checks. */
  val conflict: Seq[Rule[ConflictFacts]] = Seq(
    Rule[ConflictFacts]("G3", NotEligible,
      "deletion vectors may be written, when the statement starts and when it has lost",
      "a merged DV is a DV",
      "a winner turned them off between") { f =>
      when(!DeletionVectorUtils.deletionVectorsWritable(f.protocol, f.metadata)) {
        "deletion vectors were turned off on this table"
      }
    },
    Rule[ConflictFacts]("G6", ContentRead,
      "no subquery in any condition or assignment, and conditions give one value per row",
      "what happens to a row would depend on other rows, and Delta does not track such a read",
      "UPDATE SET v = (SELECT sum(v) FROM t) against a DELETE of a summed row: the sum fits no " +
        "order") { f =>
      f.command.subquery.map(sql => s"the statement has a subquery: $sql").orElse(
        f.command.nonDeterministic.map(sql => s"the condition is not deterministic: $sql"))
    },
    Rule[ConflictFacts]("G7", ContentRead,
      "a MERGE source does not read the target",
      "the source's rows would depend on rows the winner took away",
      "two MERGEs, each deleting the row that the other one's source read, empty the table") { f =>
      f.command.sourceReadsTarget.map(what => s"the MERGE source $what")
    },
    Rule[ConflictFacts]("G8", ContentRead,
      "a MERGE with NOT MATCHED has a MATCHED clause without a condition",
      "only then is every matched row in the loser's DV, so a winner that takes away a row the " +
        "source matched is seen as an overlap",
      "MATCHED AND s.id = 2 THEN DELETE, NOT MATCHED THEN INSERT, against DELETE of a matched " +
        "row: run after it, the MERGE would have inserted the row again") { f =>
      when(f.command.conditionalInsert) {
        "the MERGE inserts, and no WHEN MATCHED clause is without a condition"
      }
    },
    Rule[ConflictFacts]("G9", ContentRead,
      "the target was scanned for nothing but finding the rows to change",
      "another scan of the target is a read of rows that are not in the loser's DV",
      "DELETE ... WHERE EXISTS on the same table: two of them delete both rows") { f =>
      when(f.sawOtherScan)("the statement scanned the target a second time")
    },
    Rule[ConflictFacts]("G10", ContentRead,
      "the transaction did not read the whole table",
      "then every row decides, not only those in the DV",
      "data skipping turned off marks every DML so") { f =>
      when(f.info.readWholeTable)("the transaction read the whole table")
    },
    Rule[ConflictFacts]("G11", NotEligible,
      "the isolation level is Serializable or WriteSerializable",
      "snapshot isolation has no check whose place the merge could take",
      "none known: Delta gives it to OPTIMIZE alone") { f =>
      when(f.isolationLevel != Serializable && f.isolationLevel != WriteSerializable) {
        s"the isolation level is ${f.isolationLevel}"
      }
    })

  /** Checked for each file that winners changed, on the structure of the log alone. */
  val structure: Seq[Rule[PathFacts]] = Seq(
    Rule[PathFacts]("P1", NotAnExtension,
      "each winner that mentions the file removes exactly the entry that is live and adds it " +
        "again with a DV; the first such entry is the one the loser read",
      "positions compare only within one file whose history is known without a gap",
      "a winner that rewrote the file, or merged onto another base") { f =>
      f.chain.broken
    },
    Rule[PathFacts]("P2", NewFiles,
      "the file existed in the loser's snapshot",
      "a new file has rows the loser never judged, and its AddFile is the only trace of them",
      "a winner appends a file, the next one deletes a row in it: hiding both hides the append") {
      f => when(f.chain.born)("a winner added the file")
    },
    Rule[PathFacts]("P3", NotEligible,
      "the loser replaces the file's DV, or does not mention the file",
      "without both DVs there is nothing to compare",
      "the loser deletes every row it saw and so writes a RemoveFile alone") { f =>
      when(f.loser == LoserRole.Other) {
        "this statement removes or rewrites the file without a deletion vector"
      }
    },
    Rule[PathFacts]("G12", ContentRead,
      "under WriteSerializable, no winner after a blind append that Delta lets pass changed the " +
        "file",
      "the loser goes before the append, the append before that winner, and the winner before " +
        "the loser: a cycle",
      "loser UPDATE v BETWEEN 5 AND 10; append (102, 6) and (104, 150); winner DELETE id > 100 " +
        "takes a row of the loser's file too") { f =>
      f.firstSkippedAppend.filter(_ < f.chain.lastVersion).map { append =>
        s"version ${f.chain.lastVersion} changed the file after the blind append of " +
          s"version $append"
      }
    })

  /** Checked on the bytes, in Rust; [[DvVerdict]] turns the answer into one of these names. */
  val bits: Seq[Rule[Any]] = Seq(
    Rule[Any]("P4", NotAnExtension,
      "the DV that the loser read is contained in the last winner's and in the loser's own",
      "rows may only have gone away: a row that came back was never judged by the loser",
      "RESTORE shrinks the DV: the union would delete the restored row again")(_ => None),
    Rule[Any]("P5", Overlap,
      "no row that the loser deleted is in the last winner's DV, and the loser deleted some",
      "that is (winner and current) minus base being empty: the same row was not changed twice",
      "two UPDATEs of one row: both images would live")(_ => None),
    Rule[Any]("P6", Decode,
      "DVs decode to their last byte, have the cardinality the log declares, and stay below the " +
        "number of rows, which is known for a file the loser changed",
      "a DV that is not what the log says proves nothing",
      "a damaged DV file whose checksum happens to fit")(_ => None))

  /** What refuses without being a line of the table, with the metric that counts it. */
  val circumstances: Map[String, AbortReason] =
    Map("IO" -> Io, "CODEC" -> Decode, "BUDGET" -> Budget)

  /** The metric that counts an abort by the line or circumstance `id`. */
  def countedAs(id: String): AbortReason = counted(id)

  private lazy val counted: Map[String, AbortReason] =
    circumstances ++ all.map(rule => rule.id -> rule.countedAs)

  /** Every line, in the order of the documentation. */
  def all: Seq[Rule[Nothing]] = {
    val lines: Seq[Rule[Nothing]] = notOurs ++ start ++ conflict ++ structure ++ bits
    def number(rule: Rule[Nothing]): (Char, Int) = (rule.id.head, rule.id.tail.toInt)
    lines.groupBy(_.id).values.map(_.head).toSeq.sortBy(number)
  }

  /** The first line of `rules` that `facts` violate; `path` goes into the refusal. */
  def check[F](rules: Seq[Rule[F]], facts: F, path: Option[String] = None): Option[Refusal] =
    rules.iterator
      .filter(rule => ResolutionPolicy.current.enforces(rule.id))
      .flatMap(rule => rule.violation(facts).map(Refusal(rule.id, path, _)))
      .nextOption()
}
