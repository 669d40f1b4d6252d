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
package org.apache.spark.sql.delta.rlc.harness

import java.nio.file.Path

import scala.collection.mutable
import scala.reflect.ClassTag
import scala.util.Try

import org.scalatest.Assertions._

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.delta.DeltaLog

/**
 * A fresh table of a spec, the statements that were run on it in the order they committed, and what
 * must hold of it.
 */
final class TestTable(
    val spec: TableSpec,
    val session: SparkSession = RlcSession.on,
    at: Option[(Path, String)] = None) {

  /** Where it is, and what SQL calls it: a copy of the spec's table unless `at` says another. */
  val (dir: Path, name: String) = at.getOrElse {
    val copy = TableSpec.materialize(spec)
    (copy, s"delta.`$copy`")
  }

  /** The last version before any statement of the test. */
  val initialVersion: Long = version

  private val committed = mutable.ArrayBuffer.empty[(Statement, Outcome)]
  private val claimed = mutable.Set.empty[Long]

  /** Last version of the log by its files. */
  def version: Long = LogReplay.versions(dir).last
  def replay: LogReplay = new LogReplay(dir)
  def log: DeltaLog = DeltaLog.forTable(session, dir.toString)

  /** Statements that committed, in log order. */
  def history: Seq[(Statement, Outcome)] = committed.synchronized(committed.toVector)

  /** Statements that are being finished, the innermost last: a hook can finish another one. */
  private val underway = mutable.ArrayBuffer.empty[Running]
  private[harness] def isFinishing(r: Running): Boolean =
    underway.synchronized(underway.lastOption.contains(r))
  private[harness] def finishing[T](r: Running)(f: => T): T = {
    underway.synchronized(underway += r)
    try f finally underway.synchronized(underway.dropRightInPlace(1))
  }

  private[harness] def isClaimed(v: Long): Boolean = claimed.synchronized(claimed(v))
  private[harness] def claim(vs: Seq[Long]): Unit = claimed.synchronized(claimed ++= vs)
  private def record(s: Statement, o: Outcome): Outcome = {
    committed.synchronized(committed += (s -> o))
    o
  }

  // ---- running statements --------------------------------------------------------------------

  /** Starts a statement and returns when it is about to commit. */
  def begin(s: Statement, on: SparkSession = session): Running = {
    val r = new Running(this, s, on).start()
    if (!r.isHeld) fail(s"[$s] ended before a commit: ${r.finish()}")
    r
  }

  /** Runs a statement from start to end on this thread; it must succeed. */
  def run(s: Statement, on: SparkSession = session): Outcome = {
    val before = version
    val rows = s.run(on, name)
    val versions = ((before + 1) to version).filterNot(isClaimed)
    claim(versions)
    record(s, Outcome(versions, Try(rows)))
  }

  /** Lets a held statement commit; it must succeed, with exactly one commit. */
  def commit(r: Running): Outcome = {
    val o = r.finish()
    o.error.foreach(e => throw new AssertionError(s"[${r.statement}] should have committed", e))
    assert(o.versions.nonEmpty, s"[${r.statement}] committed nothing")
    record(r.statement, o)
  }

  /**
   * Lets a held statement commit; it must fail with exactly the exception `E` and leave nothing
   * behind: no version, and no file that was not there before, other than what a winner of the
   * meantime committed.
   */
  def conflict[E <: Throwable](r: Running)(implicit tag: ClassTag[E]): Throwable = {
    val filesBefore = TableFiles.list(dir)
    val o = r.finish()
    o.error match {
      case None => fail(s"[${r.statement}] committed ${o.versions}, expected ${tag.runtimeClass}")
      case Some(e) =>
        assert(e.getClass === tag.runtimeClass, s"from [${r.statement}]: $e")
        assert(o.versions.isEmpty, "a version of a statement that failed")
        assert(unreferenced(filesBefore).isEmpty, s"[${r.statement}] failed and left files behind")
        e
    }
  }

  /** Files of the table, without its log, that were not there `before` and that no commit names. */
  def unreferenced(before: Set[String]): Set[String] = {
    val named = referencedFiles
    (TableFiles.list(dir) -- before)
      .filterNot(f => f.startsWith("_delta_log") || f.contains("_delta_log/"))
      .map(f => f.split('/').last.stripPrefix(".").stripSuffix(".crc"))
      .filterNot(named)
  }

  /** The DV files that these entries name, relative to the table as in `TableFiles.dvFiles`. */
  def dvFiles(entries: Seq[FileEntry]): Set[String] =
    entries.flatMap(DvFiles.path(dir, _)).map(dir.relativize(_).toString).toSet

  /** Last path components of all files that the log names. */
  private def referencedFiles: Set[String] = replay.commits.flatMap { c =>
    (c.adds ++ c.removes ++ c.cdc).flatMap { e =>
      e.path.split('/').last +: DvFiles.path(dir, e).map(_.getFileName.toString).toSeq
    }
  }.toSet

  // ---- looking -------------------------------------------------------------------------------

  /** Rows of the table, as strings, sorted; `at` a version or the newest. */
  def rows(
      at: Option[Long] = None, columns: String = "*", on: SparkSession = session): Seq[String] =
    TestTable.rows(on, name, at, columns)

  /** Values of the column `id`, ascending. */
  def ids(at: Option[Long] = None): Seq[Long] =
    rows(at, "id").map(_.drop(1).dropRight(1).toLong).sorted

  /** The change feed of one version, as strings, sorted. */
  def changes(v: Long, on: SparkSession = session): Seq[String] = TestTable.changes(on, name, v)

  def sql(text: String, on: SparkSession = session): Array[Row] =
    on.sql(text.replace("{t}", name)).collect()

  // ---- judging -------------------------------------------------------------------------------

  /** The invariants of a commit for every version, and the serial replay. */
  def check(options: CheckOptions = CheckOptions()): Unit = {
    Invariants.check(this, options)
    if (options.oracle) ReplayOracle.check(this, options)
  }
}

object TestTable {
  private[harness] def rows(
      on: SparkSession, name: String, at: Option[Long], columns: String): Seq[String] =
    on.sql(s"SELECT $columns FROM $name${at.fold("")(v => s" VERSION AS OF $v")}").collect()
      .map(_.toString).sorted.toSeq

  private[harness] def changes(on: SparkSession, name: String, v: Long): Seq[String] =
    on.read.format("delta").option("readChangeFeed", "true")
      .option("startingVersion", v).option("endingVersion", v)
      .table(name).drop("_commit_timestamp").collect()
      .map(_.toString).sorted.toSeq
}
