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

package org.apache.spark.sql.delta.rlc.histories

import java.nio.file.Path
import java.util.concurrent.{Semaphore, TimeUnit}

import scala.collection.mutable
import scala.util.{Failure, Success, Try}

import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.delta.{DeltaConcurrentModificationException, OptimisticTransaction, TransactionExecutionObserver}
import org.apache.spark.sql.delta.rlc.harness.Causes

/** How a statement of a history ended. */
sealed trait Ending
/** With these versions of the table: one for DML, any number for maintenance. */
final case class Committed(versions: Vector[Long]) extends Ending
/** Without a version: there was nothing to do. */
case object NothingToDo extends Ending
/** With one of Delta's conflicts, or refused by Delta for a reason that `Driver` knows. */
final case class Aborted(cause: String) extends Ending
/** With anything else: always a failure of the history. */
final case class Crashed(error: Throwable) extends Ending

/** What the product said about one pass of conflict resolution. */
final case class Pass(
    number: Int,
    rebased: Boolean,
    merged: Int,
    removed: Int,
    untouched: Int,
    rules: Seq[String])

/** What became of one statement; `readVersions` has one entry for each transaction it started. */
final case class Done(
    statement: Statement,
    readVersions: Vector[Long],
    ending: Ending,
    passes: Vector[Pass]) {
  def resolvedSomething: Boolean = passes.exists(p => p.merged + p.removed + p.untouched > 0)
}

/**
 * Runs the statements of a case, one at a time, in the order of its schedule.
 *
 * The harness' `Running` holds the one commit of one statement; here a statement may have several
 * transactions (OPTIMIZE tries again) and stops at all of them, and after each pass of conflict
 * resolution, so the turns are handed out here.
 */
final class Driver(lab: Lab, dir: Path, template: Lab.Template, history: Case) {
  import Driver._

  private val log = new TableLog(dir)

  def run(): Vector[Done] = {
    val names = template.names(dir)
    val turns = history.statements.map(s => new Turn(lab.session(history), s, s.sql(names)))
    val versions = Array.fill(turns.size)(Vector.empty[Long])

    def step(i: Int): Unit = {
      val before = log.lastVersion
      turns(i).step()
      versions(i) = versions(i) ++ ((before + 1) to log.lastVersion)
    }
    try {
      history.schedule.foreach(i => if (turns.indices.contains(i) && !turns(i).isOver) step(i))
      turns.indices.foreach(i => while (!turns(i).isOver) step(i))
    } finally turns.foreach(_.abandon())

    turns.zip(versions).map { case (t, vs) =>
      val ending = t.result match {
        case Success(_) => if (vs.isEmpty) NothingToDo else Committed(vs)
        case Failure(Conflict(name)) if vs.isEmpty || !t.statement.isDml => Aborted(name)
        case Failure(e: IllegalArgumentException)
            if t.statement.isInstanceOf[Restore] && e.getMessage.contains("should be less") =>
          Aborted("restore to the last version")
        // Stock Delta 4.4.0 cannot plan some MERGEs with subqueries in two of their actions.
        case Failure(e: AnalysisException)
            if t.statement.isInstanceOf[Merge] && vs.isEmpty &&
              e.getMessage.startsWith("Table does not support reads") =>
          Aborted("not planned by Delta")
        case Failure(e) => Crashed(e)
      }
      Done(t.statement, t.readVersions, ending, t.passes)
    }
  }
}

object Driver {

  /** Far above what a step takes: only a deadlock gets here. */
  private val timeoutSeconds = 300L

  private object Conflict {
    def unapply(t: Throwable): Option[String] =
      Causes.of(t).collectFirst {
        case e: DeltaConcurrentModificationException => e.getClass.getSimpleName
      }
  }

  private val current = new ThreadLocal[Turn]

  /** Called by the product's listener, on the thread of the loser. */
  private[histories] def resolved(pass: Pass): Unit = Option(current.get).foreach(_.resolved(pass))

  /** A statement on its own thread, which moves only inside `step`. */
  private final class Turn(session: SparkSession, val statement: Statement, sql: String) {
    private val go = new Semaphore(0)
    private val back = new Semaphore(0)
    private val reads = mutable.ArrayBuffer.empty[Long]
    private val seen = mutable.ArrayBuffer.empty[Pass]
    @volatile private var over = false
    @volatile private var abandoned = false
    @volatile private var outcome: Try[Unit] = _

    private val thread = new Thread(() => {
      go.acquire()
      if (!abandoned) {
        outcome = Try {
          current.set(this)
          SparkSession.setActiveSession(session)
          TransactionExecutionObserver.withObserver(new Stops(this)) {
            session.sql(sql).collect()
            ()
          }
        }
      }
      over = true
      back.release()
    }, s"history-$statement")
    thread.setDaemon(true)
    thread.start()

    def isOver: Boolean = over
    def result: Try[Unit] = outcome
    def readVersions: Vector[Long] = reads.toVector
    def passes: Vector[Pass] = seen.toVector

    /** Lets it run to its next stop or its end. */
    def step(): Unit = {
      go.release()
      if (!back.tryAcquire(timeoutSeconds, TimeUnit.SECONDS)) {
        val stack = thread.getStackTrace.map(f => s"    at $f").mkString("\n")
        throw new IllegalStateException(s"[$sql] hangs; it is here:\n$stack")
      }
    }

    /** Ends a thread that still waits, when the history itself failed. */
    def abandon(): Unit = if (!over) {
      abandoned = true
      go.release()
    }

    def pause(): Unit = if (statement.canPause && (Thread.currentThread() eq thread)) {
      back.release()
      go.acquire()
      if (abandoned) throw new InterruptedException("the history is given up")
    }

    def started(readVersion: Long): Unit = reads += readVersion
    def resolved(pass: Pass): Unit = {
      seen += pass
      // A pass that ended in a conflict has no next attempt.
      if (pass.rebased) pause()
    }
  }

  /** Stops a statement's thread after it fixed a snapshot and before it first tries to commit. */
  private final class Stops(turn: Turn) extends TransactionExecutionObserver {
    override def startingTransaction(f: => OptimisticTransaction): OptimisticTransaction = {
      val txn = f
      turn.started(txn.readVersion)
      turn.pause()
      txn
    }
    override def beginDoCommit(): Unit = turn.pause()
    override def preparingCommit[T](f: => T): T = f
    override def beginBackfill(): Unit = ()
    override def beginPostCommit(): Unit = ()
    override def transactionCommitted(): Unit = ()
    override def transactionAborted(): Unit = ()
    override def createChild(): TransactionExecutionObserver =
      TransactionExecutionObserver.getObserver
  }
}
