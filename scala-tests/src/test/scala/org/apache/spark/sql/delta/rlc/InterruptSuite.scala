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

import java.io.InterruptedIOException
import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicReference

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{Path => HPath}

import org.apache.spark.sql.delta.{DeltaConcurrentModificationException, TransactionExecutionObserver}
import org.apache.spark.sql.delta.rlc.harness._

/** A statement is cancelled while it resolves a conflict: it ends, and leaves nothing behind. */
class InterruptSuite extends RowLevelTest {

  /** A way to cancel. */
  private sealed abstract class Cancel(val text: String) {
    def apply(a: Running): Unit
  }
  private object Interrupt extends Cancel("an interrupt") {
    override def apply(a: Running): Unit = a.interrupt()
  }
  private object CancelGroup extends Cancel("cancelJobGroup") {
    override def apply(a: Running): Unit = spark.sparkContext.cancelJobGroup(group)
  }
  private object CancelGroupForEver extends Cancel("cancelJobGroupAndFutureJobs") {
    override def apply(a: Running): Unit =
      spark.sparkContext.cancelJobGroupAndFutureJobs(group, "cancelled by a test")
  }

  private var groups = 0
  private def group: String = s"interrupted-$groups"

  private val observers = new AtomicReference[Seq[TransactionExecutionObserver]](Nil)

  /** DELETE of row 1, in a job group; shows the observer before and after it. */
  private def loser: Statement = {
    groups += 1
    val mine = group
    Statement("DELETE of row 1", { (session, name) =>
      val before = TransactionExecutionObserver.getObserver
      session.sparkContext.setJobGroup(mine, "to be cancelled", interruptOnCancel = true)
      try session.sql(s"DELETE FROM $name WHERE id = 1").collect()
      finally {
        observers.set(Seq(before, TransactionExecutionObserver.getObserver))
        session.sparkContext.clearJobGroup()
      }
    })
  }

  /** Does `act` when the `n`th such call on a DV file comes, or on the loser's commit file. */
  private class At(
      operation: String, n: Int = 1, commit: Boolean = false, when: => Boolean = true)(
      act: => Unit) extends StorageProbe {
    private var seen = 0
    override def watches(path: HPath): Boolean =
      if (commit) path.getName == "00000000000000000002.json" else StorageProbe.isDv(path)
    override def before(call: StorageCall): Unit = if (call.operation == operation && when) {
      val now = synchronized { seen += 1; seen == n }
      if (now) act
    }
  }

  /** Runs the race under `probe`, which gets the loser; checks what every race must leave. */
  private def race(late: Seq[Int] = Nil, attempted: Boolean = false)(
      probe: Running => StorageProbe): (Running, Outcome) =
    withConf(ProbedFileSystem.options :+
        // As by default on a store that shows half-written files, unless a winner comes later.
        "spark.databricks.delta.commitLock.enabled" -> late.isEmpty.toString: _*) {
      val t = table()
      val a = t.begin(loser)
      t.run("DELETE FROM {t} WHERE id = 2")
      lateDone = false
      late.foreach(id => a.afterPass(1) {
        t.run(s"DELETE FROM {t} WHERE id = $id")
        lateDone = true
      })
      val files = TableFiles.list(t.dir)
      val (o, _) = ProbedFileSystem.watch(probe(a))(a.finish())
      // A commit that was attempted may have landed for all that the statement can know.
      if (!attempted) assert(t.unreferenced(files) === Set.empty, "left behind")
      val kept = (0 until 10).diff(2 +: late)
      assert(t.ids() === (if (o.versions.isEmpty) kept else kept.diff(Seq(1))))
      assert(observers.get.size === 2)
      assert(observers.get.head eq observers.get.last, "the thread's observer is put back")
      t.check(CheckOptions.winnersOnly.copy(checksums = o.error.isEmpty))
      // No thread of the reader's is still at work, no lock is held.
      assert(busyReaders === Nil)
      t.run("DELETE FROM {t} WHERE id = 9")
      (a, o)
    }

  /** Whether the late winners have committed. */
  @volatile private var lateDone = false

  private def busyReaders: Seq[String] = Thread.getAllStackTraces.asScala.toSeq.collect {
    case (thread, stack) if thread.getName.startsWith("delta-rlc-dv-reader") &&
        stack.exists(_.getClassName.contains("DeletionVectorReader")) => thread.getName
  }

  private def causes(o: Outcome): Seq[Throwable] = o.error.toSeq.flatMap(Causes.of)

  /** It ended because of the interrupt, and not in a conflict that a caller would try again. */
  private def assertCancelled(o: Outcome): Unit = {
    assert(o.versions === Nil)
    assert(causes(o).exists(e =>
      e.isInstanceOf[InterruptedException] || e.isInstanceOf[InterruptedIOException]), o)
    assert(!causes(o).exists(_.isInstanceOf[DeltaConcurrentModificationException]), o)
  }

  test("an interrupt while deletion vectors are read ends the statement and the reads") {
    val (_, o) = race() { a =>
      new At("open")({ a.interrupt(); new CountDownLatch(1).await() }) // the reader is stopped, too
    }
    assertCancelled(o)
  }

  test("an interrupt when the last byte has been read stops before the native call") {
    val (a, o) = race() { a => new At("read", n = 2)(a.interrupt()) }
    assertCancelled(o)
    assert(a.resolutions.map(_.rebased) === Seq(false))
  }

  test("an interrupt while the merged deletion vector is written, on a store that heeds it") {
    for (operation <- Seq("create", "write", "close")) withClue(operation) {
      val (_, o) = race() { a =>
        new At(operation)({ a.interrupt(); throw new InterruptedIOException("injected") })
      }
      assertCancelled(o)
    }
  }

  test("an interrupt while it is written, on a store that does not heed it") {
    val (_, o) = race() { a => new At("close")(a.interrupt()) }
    assertCancelled(o)
  }

  test("[trap 28] an interrupt in the second pass: the file of the first, which failed, goes") {
    val (a, o) = race(late = Seq(3)) { a =>
      new At("open", when = lateDone)({ a.interrupt(); new CountDownLatch(1).await() })
    }
    assertCancelled(o)
    assert(a.resolutions.map(_.rebased) === Seq(true, false))
  }

  test("a clean-up that the store would refuse to an interrupted thread is done all the same") {
    val refused = new AtomicReference[Option[String]](None)
    val (_, o) = race() { a =>
      new At("close")({ a.interrupt(); throw new InterruptedIOException("injected") }) {
        override def before(call: StorageCall): Unit = {
          if (call.operation == "delete" && Thread.currentThread().isInterrupted) {
            refused.set(Some(call.toString))
            throw new InterruptedIOException("not while interrupted")
          }
          super.before(call)
        }
      }
    }
    assertCancelled(o)
    assert(refused.get === None)
  }

  for (cancel <- Seq(Interrupt, CancelGroup, CancelGroupForEver)) {
    test(s"${cancel.text} when the commit is written: it has happened or it has not") {
      race(attempted = true) { a => new At("status", commit = true)(cancel(a)) }
    }
  }

  test("an interrupt when the commit is in place: it has happened") {
    val (_, o) = race(attempted = true) { a => new At("rename", commit = true)(a.interrupt()) }
    assert(o.versions.size === 1)
  }

  test("cancelled jobs while deletion vectors are read: there is none to cancel") {
    val (a, _) = race() { a => new At("open")(CancelGroupForEver(a)) }
    assert(a.resolutions.map(_.rebased) === Seq(true))
  }
}
