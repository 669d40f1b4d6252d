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

import java.util.concurrent.{CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}

import scala.collection.mutable
import scala.util.{Failure, Success, Try}

import io.github.deltarlc.{Resolution, ResolutionListener, RowLevelConcurrency}

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.delta.{OptimisticTransaction, TransactionExecutionObserver}
import org.apache.spark.sql.delta.fuzzer.{ExecutionPhaseLock, OptimisticTransactionPhases, PhaseLockingTransactionExecutionObserver}

/** How a statement ended: the versions it committed and its rows, or what it threw. */
final case class Outcome(versions: Seq[Long], result: Try[Array[Row]]) {
  def error: Option[Throwable] = result.failed.toOption
  def version: Long = versions match {
    case Seq(v) => v
    case other => throw new AssertionError(s"expected one version, got $other")
  }
}

/**
 * The phase locks of a statement's first transaction. All phases are open but the commit; what the
 * thread does after the first transaction, or inside its post-commit hooks, is not held.
 */
private[rlc] class GateObserver(name: String)
  extends PhaseLockingTransactionExecutionObserver(OptimisticTransactionPhases.forName(name)) {

  /** Counted down when the commit is reached or the transaction gave up. */
  val stopped = new CountDownLatch(1)
  private val started = new AtomicInteger
  private val depth = new AtomicInteger
  private val opened = new AtomicBoolean
  @volatile private var over = false

  // Which phases there are depends on Delta's version.
  phases.productIterator.collect { case lock: ExecutionPhaseLock => lock }
    .filter(_ ne phases.commitPhase).foreach(_.entryBarrier.unblock())

  /** Lets the commit go on; only the first call counts. */
  def open(): Unit =
    if (opened.compareAndSet(false, true)) phases.commitPhase.entryBarrier.unblock()

  /** Whether the caller is the first transaction and not, say, an auto compaction inside it. */
  private def outermost: Boolean = depth.get() == 1 && !over

  override def startingTransaction(f: => OptimisticTransaction): OptimisticTransaction = {
    depth.incrementAndGet()
    if (started.incrementAndGet() == 1) super.startingTransaction(f) else f
  }
  override def preparingCommit[T](f: => T): T =
    if (outermost) super.preparingCommit(f) else f
  override def beginDoCommit(): Unit = if (outermost) {
    stopped.countDown()
    super.beginDoCommit()
  }
  override def beginBackfill(): Unit = if (outermost) super.beginBackfill()
  override def beginPostCommit(): Unit = if (outermost) super.beginPostCommit()
  override def transactionCommitted(): Unit = {
    if (outermost) {
      over = true
      super.transactionCommitted()
    }
    depth.decrementAndGet()
  }
  override def transactionAborted(): Unit = {
    if (outermost) {
      over = true
      stopped.countDown()
      open()
      super.transactionAborted()
    }
    depth.decrementAndGet()
  }
}

/**
 * A statement on a thread of its own, stopped where its commit would begin: its reads are done, its
 * files and deletion vectors are written, its read version is fixed.
 */
final class Running private[rlc] (
    table: TestTable,
    val statement: Statement,
    session: SparkSession) {

  private val observer = new GateObserver(s"${Running.counter.incrementAndGet()}")
  private val finished = new CountDownLatch(1)
  private val hooks = mutable.Map.empty[Int, () => Unit]
  @volatile private var result: Try[Array[Row]] = _
  @volatile private var hookFailure: Option[Throwable] = None
  private val seen = mutable.ArrayBuffer.empty[Resolution]

  /** Version the statement reads, if nothing else commits before it is stopped. */
  val readVersion: Long = table.version

  private val listener = new ResolutionListener {
    override def onResolution(r: Resolution): Unit = if (table.isFinishing(Running.this)) {
      val hook = seen.synchronized { seen += r; hooks.remove(seen.size) }
      hook.foreach { h =>
        // On a thread of its own: this one carries the loser's observer.
        try Running.onFreshThread(session, s"hook of $statement")(h())
        catch { case t: Throwable => hookFailure = Some(t) }
      }
    }
  }

  private val thread: Thread = new Thread(() => {
    result =
      try {
        SparkSession.setActiveSession(session)
        Success(TransactionExecutionObserver.withObserver(observer) {
          statement.run(session, table.name)
        })
      } catch {
        case e: Throwable => Failure(e) // also an interrupt, which Try lets through
      }
    finished.countDown()
    observer.stopped.countDown()
  }, s"rlc-$statement")
  thread.setDaemon(true)

  private[rlc] def start(): this.type = {
    thread.start()
    await(observer.stopped, "reach its commit")
    this
  }

  /** Whether it is held before its commit, rather than over already. */
  def isHeld: Boolean = finished.getCount > 0

  /** Every pass of conflict resolution that the product reported for this statement. */
  def resolutions: Seq[Resolution] = seen.synchronized(seen.toVector)

  /** Runs `f` between the end of pass `n` (from 1) and the attempt to commit that follows it. */
  def afterPass(n: Int)(f: => Unit): this.type = {
    seen.synchronized(hooks += n -> (() => f))
    this
  }

  /** Interrupts its thread, as those do who cancel a statement that way. */
  def interrupt(): Unit = thread.interrupt()

  /** Lets it commit and waits for its end, whatever that is. */
  def finish(): Outcome = {
    val before = table.version
    RowLevelConcurrency.addListener(listener)
    table.finishing(this) {
      observer.open()
      await(finished, "end")
    }
    RowLevelConcurrency.removeListener(listener)
    hookFailure.foreach(t => throw new AssertionError(s"a hook of [$statement] failed", t))
    if (result.isSuccess && hooks.nonEmpty) {
      throw new AssertionError(s"[$statement] never came to pass ${hooks.keys.min}")
    }
    val versions = ((before + 1) to table.version).filterNot(table.isClaimed)
    table.claim(versions)
    Outcome(versions, result)
  }

  private def await(latch: CountDownLatch, what: String): Unit =
    if (!latch.await(Running.timeoutSeconds, TimeUnit.SECONDS)) {
      val stack = thread.getStackTrace.map(f => s"    at $f").mkString("\n")
      thread.interrupt()
      throw new AssertionError(
        s"[$statement] did not $what in ${Running.timeoutSeconds} s; it is here:\n$stack")
    }
}

object Running {
  /** Far above what any statement takes: only a deadlock gets here. */
  private val timeoutSeconds = 600L
  private val counter = new AtomicInteger

  /** Runs `f` to its end on a new thread that knows nothing but the session. */
  private[rlc] def onFreshThread[T](session: SparkSession, name: String)(f: => T): T = {
    var result: Try[T] = null
    val t = new Thread(() => {
      result = Try { SparkSession.setActiveSession(session); f }
    }, name)
    t.setDaemon(true)
    t.start()
    t.join(timeoutSeconds * 1000)
    if (t.isAlive) {
      val stack = t.getStackTrace.map(f => s"    at $f").mkString("\n")
      t.interrupt()
      throw new AssertionError(s"[$name] hangs; it is here:\n$stack")
    }
    result match {
      case Success(v) => v
      case Failure(e) => throw e
    }
  }
}
