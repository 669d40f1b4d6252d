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
package org.apache.spark.sql.delta.rlc.storage

import java.io.IOException
import java.nio.file.{Files, Path => JPath}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}

import scala.jdk.CollectionConverters._
import scala.util.{Failure, Success, Try}

import io.delta.exceptions.DeltaConcurrentModificationException
import io.github.deltarlc.{ResolutionListener, RowLevelConcurrency}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.delta.DeltaOperations.ManualUpdate
import org.apache.spark.sql.delta.actions.AddFile
import org.apache.spark.sql.delta.rlc.harness.RlcSession

/**
 * Every call that a resolution makes to the storage fails once, before it is done, after it is
 * done, or by handing out wrong bytes. Whatever happens, the loser has committed the union or has
 * failed and left the winner's state; no commit names a DV that is not there, and no DV file that
 * a commit names is gone. Commits of unknown outcome are FaultSuite's.
 */
class FaultInjectionSuite extends AnyFunSuite {
  import FaultInjectionSuite._

  private val loserRow = 1L
  private val winnerRow = 2L
  private val baseRow = 900L

  /** Two files with a base DV, a loser and a winner that change other rows of both. */
  private def race(probe: StorageProbe, secondWinner: Boolean = false): Race =
    RlcSession.withConf(RlcSession.on, ProbedFileSystem.options: _*) {
      val dir = Files.createTempDirectory(RlcSession.root, "faults")
      val t = new SyntheticTable(RlcSession.on, dir, fileCount = 2, rows = 1000L)
      t.delete(t.files.map(_ -> Seq(baseRow)).toMap)
      val loser = t.startLoser()
      val actions = t.prepare(loser, t.files.map(_ -> Seq(loserRow)).toMap)
      t.delete(t.files.map(_ -> Seq(winnerRow)).toMap)
      val again: ResolutionListener = r =>
        if (secondWinner && r.pass == 1 && r.rebased) t.delete(t.files.map(_ -> Seq(3L)).toMap)
      RowLevelConcurrency.addListener(again)
      try {
        val (result, calls) = ProbedFileSystem.watch(probe)(Try(loser.commit(actions, ManualUpdate)))
        Race(t, dir, result, calls)
      } finally RowLevelConcurrency.removeListener(again)
    }

  private def dvFilesOnDisk(dir: JPath): Set[String] = {
    val listing = Files.list(dir)
    try listing.iterator.asScala.map(_.getFileName.toString)
      .filter(name => name.startsWith("deletion_vector") && name.endsWith(".bin")).toSet
    finally listing.close()
  }

  private def dvFilesNamed(t: SyntheticTable): Set[String] =
    t.log.getChanges(0).flatMap(_._2).collect {
      case a: AddFile if a.deletionVector != null =>
        a.deletionVector.absolutePath(t.log.dataPath).getName
    }.toSet

  private def check(race: Race, deleteFailed: Boolean, winners: Seq[Long] = Seq(winnerRow)): Unit = {
    val rows = race.result match {
      case Success(_) => Seq(loserRow)
      case Failure(_: DeltaConcurrentModificationException) => Nil
      case Failure(e) => fail("neither committed nor Delta's own conflict", e)
    }
    val expected = (rows ++ winners :+ baseRow).sorted
    // Reading goes through Delta's own store, which checks size, checksum and cardinality.
    assert(race.table.deleted() === race.table.files.map(_ -> expected).toMap)
    val named = dvFilesNamed(race.table)
    val onDisk = dvFilesOnDisk(race.dir)
    assert(named -- onDisk === Set.empty, "named by a commit and gone")
    // The loser's own DV file always stays: VACUUM's business, as after any failed statement.
    val orphans = onDisk -- named
    assert(orphans.size <= 1 || deleteFailed, s"left behind: $orphans")
  }

  /** Does `what` to the `n`th call of the kind; counts from 0. */
  private class Once(operation: String, n: Int) extends StorageProbe {
    private val seen = new AtomicInteger
    protected val done = new AtomicBoolean
    def happened: Boolean = done.get
    protected def isTheOne(call: StorageCall): Boolean =
      call.operation == operation && seen.getAndIncrement() == n && done.compareAndSet(false, true)
  }

  private final class FailBefore(operation: String, n: Int) extends Once(operation, n) {
    override def before(call: StorageCall): Unit =
      if (isTheOne(call)) throw new IOException(s"injected before $call")
  }

  private final class FailAfter(operation: String, n: Int) extends Once(operation, n) {
    override def after(call: StorageCall): Unit =
      if (isTheOne(call)) throw new IOException(s"injected after $call")
  }

  private final class WrongByte(n: Int, at: Int) extends Once("read", n) {
    override def arrived(
        call: StorageCall, bytes: Array[Byte], offset: Int, length: Int): Unit =
      if (isTheOne(call)) bytes(offset + at % length) = (bytes(offset + at % length) ^ 0x40).toByte
  }

  test("without a fault both commit; these are the calls that the other tests make fail") {
    val quiet = race(new StorageProbe {})
    check(quiet, deleteFailed = false)
    assert(quiet.result.isSuccess)
    assert(quiet.calls.map(_.operation).distinct.toSet ===
      Set("open", "read", "create", "write", "close"))
    assert(quiet.calls.count(_.operation == "open") === 3)
    assert(quiet.calls.count(_.operation == "read") === 3)
  }

  for {
    (operation, count) <- Seq("open" -> 3, "read" -> 3, "create" -> 1, "write" -> 2, "close" -> 1)
    n <- 0 until count
    (when, probe) <- Seq(
      "before" -> new FailBefore(operation, n), "after" -> new FailAfter(operation, n))
  } test(s"$operation ${n + 1} fails $when it is done: Delta's conflict, nothing left behind") {
    val failed = race(probe)
    assert(probe.happened)
    check(failed, deleteFailed = false)
    assert(failed.result.isFailure)
    val reasons = failed.result.failed.get.getSuppressed.map(_.getMessage)
    assert(reasons.exists(_.contains("injected")), s"the reason is told: ${reasons.toSeq}")
  }

  for (n <- 0 until 3; at <- Seq(0, 5, 20, 45, 1 << 16)) {
    test(s"read ${n + 1} hands out a wrong byte at $at: Delta's conflict") {
      val probe = new WrongByte(n, at)
      val failed = race(probe)
      assert(probe.happened)
      check(failed, deleteFailed = false)
      assert(failed.result.isFailure, "a wrong byte was not noticed")
    }
  }

  test("the merged file of a first pass that cannot be deleted stays, and nothing else happens") {
    val probe = new FailBefore("delete", 0)
    val result = race(probe, secondWinner = true)
    assert(probe.happened)
    check(result, deleteFailed = true, winners = Seq(winnerRow, 3L))
    assert(result.result.isSuccess)
  }

  test("a second pass that cannot read the new winner: conflict, the first merged file goes") {
    // Opens 1 to 3 are the first pass's, 4 and 5 the second winner's own.
    val probe = new FailBefore("open", 5)
    val result = race(probe, secondWinner = true)
    assert(probe.happened)
    check(result, deleteFailed = false, winners = Seq(winnerRow, 3L))
    assert(result.result.isFailure)
  }
}

private object FaultInjectionSuite {
  final case class Race(
      table: SyntheticTable, dir: JPath, result: Try[Long], calls: Seq[StorageCall])
}
