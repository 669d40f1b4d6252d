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
import java.util.concurrent.{CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}

import scala.util.{Failure, Success, Try}

import org.apache.spark.sql.delta.DeltaConcurrentModificationException
import io.github.deltarlc.{ResolutionListener, RowLevelConcurrency}
import org.apache.hadoop.fs.{Path => HPath}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.delta.DeltaLog
import org.apache.spark.sql.delta.DeltaOperations.ManualUpdate
import org.apache.spark.sql.delta.actions.AddFile
import org.apache.spark.sql.delta.rlc.RowLevelConcurrencyConf
import org.apache.spark.sql.delta.rlc.harness._

/**
 * Every call that a resolution and its commit make to the storage goes wrong once, in every way
 * that it can: the calls of an undisturbed run are written down, and the race is run again for each
 * of them and each fault. Whatever happens, the loser has committed the union or has failed and left
 * the winners' state; no commit names a DV that is not whole, nothing is deleted but the loser's own
 * merged files, and those stay exactly when a commit may name them.
 */
class FaultInjectionSuite extends AnyFunSuite {
  import FaultInjectionSuite._

  // ---- the race

  private val baseRow = 900L

  /** Two files that have lost a row each. */
  private lazy val template: JPath = {
    val dir = fresh()
    val t = new SyntheticTable(RlcSession.on, dir, fileCount = 2, rows = 1000L)
    t.commit(t.startLoser(), t.files.map(_ -> Seq(baseRow)).toMap)
    dir
  }

  /** The files as every race reads them, so that a race needs no job of Spark's for it. */
  private lazy val entries: Seq[AddFile] =
    DeltaLog.forTable(RlcSession.on, new HPath(template.toUri)).update().allFiles.collect().toSeq

  /** The template after DELETEs of `rows`, one after the other, in both files. */
  private def winnersOf(rows: Long*): JPath = {
    val dir = copyOf(template)
    val t = new SyntheticTable(RlcSession.on, dir, fileCount = 2, rows = 1000L)
    // With its checksum file, which spares the loser a job.
    rows.foreach(row => t.commit(t.startLoser(), t.files.map(_ -> Seq(row)).toMap))
    dir
  }
  private lazy val disjoint: JPath = winnersOf(2L, 3L)
  private lazy val overlapping: JPath = winnersOf(2L, loserRow)

  private val first = 3L // the first winner's version

  private def tableFor(scenario: Scenario): JPath =
    if (scenario.commits) disjoint else overlapping

  private def fresh(): JPath = Files.createTempDirectory(RlcSession.root, "faults")
  private def copyOf(table: JPath): JPath = {
    val dir = fresh()
    TableFiles.copy(table, dir)
    dir
  }

  /** The commit of `version` in `from`, its DV file first, as its writer would have done it. */
  private def land(version: Long, from: JPath, to: JPath): Unit = {
    val dv = new LogReplay(from).commit(version).adds.flatMap(DvFiles.path(from, _)).head
    Files.copy(dv, to.resolve(dv.getFileName))
    for (kind <- Seq("json", "crc")) {
      val name = JPath.of("_delta_log", f"$version%020d.$kind")
      Files.copy(from.resolve(name), to.resolve(name))
    }
  }

  /** Runs the race with one `fault`, or with none. */
  private def race(scenario: Scenario, fault: Option[(Fault, Point)]): Race =
    RlcSession.withConf(RlcSession.on, ProbedFileSystem.options: _*) {
      val dir = copyOf(template)
      val t = new SyntheticTable(RlcSession.on, dir, fileCount = 2, rows = 1000L)
      val loser = t.startLoser(RowLevelConcurrencyConf.Settings(
        maxResolutionTimeMs = if (fault.exists(_._1 == Hangs)) 300L else 60000L,
        maxDvBytes = 1L << 20))
      val before = TableFiles.dvFiles(dir)
      val actions = t.prepare(loser, t.files.map(_ -> Seq(loserRow)).toMap, Some(entries))
      val own = TableFiles.dvFiles(dir) -- before
      val winners = tableFor(scenario)
      land(first, winners, dir)
      val again: ResolutionListener = r =>
        if (scenario.passes > 1 && r.pass == 1 && r.rebased) land(first + 1, winners, dir)
      val roles = own.map(_ -> "the loser's DV").toMap ++
        new LogReplay(winners).commits.flatMap(c => c.adds.flatMap(DvFiles.path(dir, _))
          .map(p => p.getFileName.toString -> s"the DV of version ${c.version}"))
      val aim = new Aim(dir, roles, fault)
      RowLevelConcurrency.addListener(again)
      try {
        val (result, calls) = ProbedFileSystem.watch(aim)(Try(loser.commit(actions, ManualUpdate)))
        Race(scenario, dir, loser.txnId, result, calls, aim)
      } finally {
        RowLevelConcurrency.removeListener(again)
        DeltaLog.invalidateCache(RlcSession.on, new HPath(dir.toUri))
      }
    }

  // ---- what must be true of it

  private def check(race: Race): Unit = {
    val replay = new LogReplay(race.dir)
    val landed = replay.commits.filter(_.commitInfo.path("txnId").asText() == race.txnId)
    val winners = race.scenario.winners.take(
      replay.commits.count(_.version >= first) - landed.size)
    val fault = race.aim.fault.map(_._1)
    val point = race.aim.fault.map(_._2)
    val harmful = fault.exists(f => f.harms(point.get))
    race.result match {
      case Success(_) =>
        assert(landed.size === 1, "acknowledged")
        assert(!harmful || point.exists(_.isLog), "the fault was not noticed")
      case Failure(e: DeltaConcurrentModificationException) =>
        val reasons = e.getSuppressed.map(_.getMessage).toSeq
        assert(harmful || !race.scenario.commits, s"should have committed: $e, $reasons")
        // Without Delta's idempotency check a commit whose answer was lost is a conflict to Delta.
        if (landed.nonEmpty) assert(fault.contains(Lies) && point.get.operation == "rename")
        if (fault.exists(_.isTold) && point.get.isDv && race.scenario.commits) {
          assert(reasons.exists(r => r.contains("injected") || fault.get.tells(r)), reasons)
        }
      case Failure(e) => // The log's storage failed Delta itself, as it does on stock.
        assert(point.exists(_.isLog) && harmful, s"neither committed nor Delta's own conflict: $e")
    }
    assert(landed.size <= 1)

    // Rows: what landed, and nothing else.
    val rows = (landed.map(_ => loserRow) ++ winners :+ baseRow).distinct.sorted
    replay.states.flatMap(_.values).foreach(e => DvFiles.positions(race.dir, e))
    assert(replay.live.map(e => DvFiles.positions(race.dir, e)) === Seq(rows, rows))

    // Files: only merged ones are deleted, and they are there exactly when a commit may name them.
    val calls = race.calls.zipWithIndex
    val deleted = race.calls.filter(_.operation == "delete").map(_.path.getName)
    val merged = race.calls.filter(c => c.operation == "create" && StorageProbe.isDv(c.path))
      .map(_.path.getName).distinct
    deleted.foreach(name => assert(merged.contains(name) || name.endsWith(".tmp"), "deleted"))
    val named = replay.commits.flatMap(c => c.adds ++ c.removes)
      .flatMap(DvFiles.path(race.dir, _)).map(_.getFileName.toString).toSet
    val onDisk = TableFiles.dvFiles(race.dir).map(f => f.split('/').last)
    assert(named -- onDisk === Set.empty, "named by a commit and gone")
    val logFailed = race.result.isFailure && point.exists(_.isLog)
    merged.filterNot(named).foreach { name =>
      val closed = calls.find(c => c._1.operation == "close" && c._1.path.getName == name)
      if (logFailed && closed.exists(_._2 < race.aim.struckAt)) {
        assert(onDisk(name) || deleted.contains(name), "of a commit whose outcome is unknown")
      } else if (!point.exists(_.operation == "delete")) {
        assert(!onDisk(name), "of an attempt that surely failed")
      }
    }
    assert((onDisk -- named -- merged).size === 1, "the loser's own DV file stays")
  }

  /** The calls of an undisturbed run up to the end of the loser's commit. */
  private def points(scenario: Scenario): Seq[Point] = {
    val quiet = race(scenario, None)
    check(quiet)
    assert(quiet.result.isSuccess === scenario.commits)
    val all = quiet.aim.seen
    // Its commit file is put in place and looked at; what follows is Delta's, after the commit.
    val end = if (!scenario.commits) all.size else
      all.lastIndexWhere(p => p.operation == "rename" && p.isLog) + 2
    all.take(end)
  }

  /** All faults at `points`, and how many races that were. */
  private def strike(scenario: Scenario, faults: Seq[Fault], points: Seq[Point]): Int = {
    val cases = for (fault <- faults; point <- points if fault.fits(point)) yield (fault, point)
    cases.foreach { case (fault, point) =>
      withClue(s"$point: $fault: ") {
        val r = race(scenario, Some(fault -> point))
        assert(r.aim.struck || fault == Hangs, "the call never came")
        if (fault == Hangs) assert(r.aim.left.await(1, TimeUnit.MINUTES), "a thread hangs")
        check(r)
        TableFiles.delete(r.dir)
      }
    }
    cases.size
  }

  // ---- tests

  test("the calls of a resolution are the ones that the other tests make fail") {
    val dv = points(OnePass).filter(_.isDv)
    def count(operation: String): Int = dv.count(_.operation == operation)
    assert(dv.map(_.operation).toSet ===
      Set("open", "read", "create", "status", "write", "close"))
    assert((count("open"), count("read"), count("create"), count("close")) === ((3, 3, 1, 1)))
    val merged = dv.filter(_.role.startsWith("merged")).map(_.operation).distinct
    assert(merged.takeRight(2) === Seq("close", "status"), "what was written is looked at")
    val log = points(OnePass).filter(_.isLog)
    assert(log.exists(p => p.operation == "open" && p.role.endsWith("3.json")), "the winner is read")
    assert(log.map(_.operation).toSet.intersect(Set("list", "create", "close", "rename")).size === 4)
    assert(points(TwoPasses).count(p => p.isDv && p.operation == "delete") === 1)
    assert(points(LateOverlap).count(p => p.isDv && p.operation == "delete") === 1)
  }

  for (fault <- Fault.all) {
    test(s"${fault.traps} one pass, any call $fault") {
      assert(strike(OnePass, Seq(fault), points(OnePass)) > 0)
    }
  }

  // What comes before the first attempt is the same as above.
  private def secondPass(scenario: Scenario): Seq[Point] = {
    val all = points(scenario)
    all.drop(all.indexWhere(p => p.isLog && p.operation == "status" && p.role.contains("4.json")))
  }

  for (scenario <- Seq(TwoPasses, LateOverlap); fault <- Seq(FailsBefore, FailsAfter, Lies)) {
    test(s"[trap 28] ${scenario.name}, any call from the first attempt on $fault") {
      assert(strike(scenario, Seq(fault), secondPass(scenario)) > 0)
    }
  }
}

private object FaultInjectionSuite {

  /** One call of a race; the same one in every run, whatever names its files have. */
  final case class Point(operation: String, role: String, nth: Int) {
    def isLog: Boolean = role.startsWith("log")
    def isDv: Boolean = role.contains("DV")
    override def toString: String = s"$operation ${nth + 1} of $role"
  }

  val loserRow = 1L

  sealed abstract class Scenario(
      val name: String, val passes: Int, val winners: Seq[Long], val commits: Boolean)
  object OnePass extends Scenario("one pass", 1, Seq(2L), commits = true)
  object TwoPasses extends Scenario("two passes", 2, Seq(2L, 3L), commits = true)
  object LateOverlap
    extends Scenario("an overlap in the second pass", 2, Seq(2L, loserRow), commits = false)

  final case class Race(
      scenario: Scenario,
      dir: JPath,
      txnId: String,
      result: Try[Long],
      calls: Seq[StorageCall],
      aim: Aim)

  /** A way for a call to go wrong. */
  sealed abstract class Fault(text: String, val traps: String = "[trap 29]") {
    def fits(p: Point): Boolean = true
    /** Whether the caller cannot have what it asked for. */
    def harms(p: Point): Boolean = !(p.isDv && p.operation == "delete")
    /** Whether the reason must be told, and by which words. */
    def isTold: Boolean = true
    def tells(reason: String): Boolean = false
    def before(call: StorageCall): Unit = ()
    def after(call: StorageCall): Unit = ()
    def granted(asked: Int): Int = asked
    def arrived(bytes: Array[Byte], offset: Int, length: Int): Unit = ()
    def answer(done: Boolean): Boolean = done
    override def toString: String = text
  }

  object FailsBefore extends Fault("fails before it is done") {
    override def before(call: StorageCall): Unit = throw new IOException(s"injected before $call")
  }

  /** For create: a file that is there; for close: one whose upload is said to have failed. */
  object FailsAfter extends Fault("is done and reports failure", "[trap 27]") {
    override def after(call: StorageCall): Unit = throw new IOException(s"injected after $call")
  }

  /** As clients of object stores do. */
  object Throws extends Fault("throws what is not declared") {
    override def before(call: StorageCall): Unit =
      throw new IllegalStateException(s"injected before $call")
  }

  object LosesData extends Fault("fails, and the file is gone", "[trap 27]") {
    override def fits(p: Point): Boolean = p.isDv && p.operation == "close"
    override def after(call: StorageCall): Unit = StorageProbe.Lost.after(call)
  }

  /** As below a stream that logs what its close throws, and returns. */
  sealed abstract class Swallowed(text: String, keep: Int, says: String)
    extends Fault(text, "[trap 27]") {
    override def fits(p: Point): Boolean = p.isDv && p.operation == "close"
    override def tells(reason: String): Boolean = reason.contains(says)
    override def after(call: StorageCall): Unit = StorageProbe.lose(call.path, keep)
  }
  object IsNotStored
    extends Swallowed("is not stored, and close reports success", 0, "does not exist")
  object IsHalfStored
    extends Swallowed("is stored in part, and close reports success", 9, "has 9 bytes after it")

  object Lies extends Fault("does not say the truth", "[trap 28] [trap 29]") {
    override def fits(p: Point): Boolean = p.operation match {
      case "read" => p.isDv // a log that ends early between two lines deceives Delta, too
      case operation => Set("rename", "delete")(operation)
    }
    override def tells(reason: String): Boolean = reason.contains("EOF")
    override def granted(asked: Int): Int = -1
    override def answer(done: Boolean): Boolean = !done
  }

  object WrongByte extends Fault("hands out a wrong byte") {
    override def fits(p: Point): Boolean = p.isDv && p.operation == "read"
    override def tells(reason: String): Boolean =
      reason.contains("checksum") || reason.contains("bytes in the file")
    override def arrived(bytes: Array[Byte], offset: Int, length: Int): Unit = {
      // Everywhere in turn: in size, bitmap and checksum of either file's DV.
      val at = offset + turn.getAndAdd(7) % length
      bytes(at) = (bytes(at) ^ 0x40).toByte
    }
    private val turn = new AtomicInteger
  }

  object GivesLess extends Fault("gives one byte of those asked for") {
    override def fits(p: Point): Boolean = p.operation == "read"
    override def harms(p: Point): Boolean = false
    override def granted(asked: Int): Int = math.min(asked, 1)
  }

  object IsLate extends Fault("takes its time") {
    override def fits(p: Point): Boolean = p.isDv // a log that is late is Delta's to wait for
    override def harms(p: Point): Boolean = false
    override def before(call: StorageCall): Unit = Thread.sleep(20)
  }

  object Hangs extends Fault("never ends") {
    override def fits(p: Point): Boolean = p.isDv && Set("open", "read")(p.operation)
    override def tells(reason: String): Boolean = reason.contains("maxResolutionTimeMs")
    override def before(call: StorageCall): Unit = new CountDownLatch(1).await()
  }

  object Fault {
    val all: Seq[Fault] =
      Seq(FailsBefore, FailsAfter, Throws, LosesData, IsNotStored, IsHalfStored, Lies, WrongByte,
        GivesLess, IsLate, Hangs)
  }

  /** Strikes at one point, once, and writes down all. */
  final class Aim(dir: JPath, roles: Map[String, String], val fault: Option[(Fault, Point)])
    extends StorageProbe {
    private val counts = scala.collection.mutable.Map.empty[(String, String), Int]
    private val points = scala.collection.mutable.ArrayBuffer.empty[Point]
    private val merged = scala.collection.mutable.ArrayBuffer.empty[String]
    private val done = new AtomicBoolean
    @volatile private var at = -1
    @volatile private var target: StorageCall = _
    /** Counted down when the call that was struck has ended. */
    val left = new CountDownLatch(1)

    def seen: Seq[Point] = synchronized(points.toVector)
    def struck: Boolean = done.get
    /** Number of calls before the one that was struck. */
    def struckAt: Int = at

    override def watches(path: HPath): Boolean = path.toUri.getPath.startsWith(dir.toString)

    private def role(path: HPath): String = {
      val name = path.getName
      if (StorageProbe.isDv(path)) roles.getOrElse(name, {
        if (!merged.contains(name)) merged += name
        s"merged DV ${merged.indexOf(name) + 1}"
      })
      else if (path.toUri.getPath.contains("_delta_log")) {
        "log " + name.replaceAll("[0-9a-f]{8}-[0-9a-f-]{27}", "*").replaceAll("0{5,}", "")
      } else "the table"
    }

    override def before(call: StorageCall): Unit = {
      val strike = synchronized {
        val key = (call.operation, role(call.path))
        val n = counts.getOrElse(key, 0)
        counts(key) = n + 1
        val point = Point(key._1, key._2, n)
        points += point
        val strike = fault.exists(_._2 == point) && done.compareAndSet(false, true)
        if (strike) {
          at = points.size - 1
          target = call
        }
        strike
      }
      if (strike) try fault.get._1.before(call) finally left.countDown()
    }
    private def whenStruck[T](call: StorageCall, otherwise: T)(f: Fault => T): T =
      if (call eq target) f(fault.get._1) else otherwise
    override def after(call: StorageCall): Unit = whenStruck(call, ())(_.after(call))
    override def granted(call: StorageCall, asked: Int): Int =
      whenStruck(call, asked)(_.granted(asked))
    override def arrived(call: StorageCall, bytes: Array[Byte], offset: Int, length: Int): Unit =
      whenStruck(call, ())(_.arrived(bytes, offset, length))
    override def answer(call: StorageCall, done: Boolean): Boolean =
      whenStruck(call, done)(_.answer(done))
  }
}
