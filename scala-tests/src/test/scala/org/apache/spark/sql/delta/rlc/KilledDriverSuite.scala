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

import java.nio.file.{Path, Paths}
import java.util.concurrent.CountDownLatch

import org.apache.hadoop.fs.{Path => HPath}

import org.apache.spark.sql.delta.DeltaLog
import org.apache.spark.sql.delta.rlc.harness._

/**
 * A driver is killed in the middle of a resolution: the statement has either happened or not, and
 * what it left is VACUUM's.
 *
 * One JVM is killed while it stands at all of the points, each in a race on a table of its own.
 */
class KilledDriverSuite extends RowLevelTest {
  import KilledDriver._

  test("[trap 28] a driver killed at any point of a resolution leaves a sound table") {
    val tables = points.map(_ -> table())
    val driver = new ChildJvm(
      KilledDriver.getClass.getName.stripSuffix("$"), tables.map(_._2.dir.toString))
    try driver.await("READY") finally driver.kill()
    tables.foreach { case (point, t) =>
      withClue(s"killed ${point.name}: ")(check(point, t))
    }
  }

  private def check(point: Point, t: TestTable): Unit = {
    val loser = if (point.committed) Seq(1L) else Nil
    assert(t.ids() === (0L until 10L).diff(2L +: loser))
    assert(t.version === t.initialVersion + 1 + loser.size)
    // The dead driver wrote no checksum after its commit, nor closed what it wrote.
    t.check(CheckOptions.winnersOnly.copy(checksums = false))
    val named = t.dvFiles(t.replay.commits.flatMap(c => c.adds ++ c.removes))
    val orphans = TableFiles.dvFiles(t.dir) -- named
    // Its own DV file was written before it lost; the merged one is the other.
    assert(orphans.size === (if (point.committed) 1 else 1 + point.mergedOrphans))

    // Life goes on, and VACUUM takes what nobody names: one table stands for all.
    t.run("DELETE FROM {t} WHERE id = 5")
    if (point.vacuumed) {
      t.sql("VACUUM {t} RETAIN 0 HOURS")
      assert(TableFiles.dvFiles(t.dir) === t.dvFiles(t.replay.live))
      DeltaLog.invalidateCache(RlcSession.on, new HPath(t.dir.toUri))
    }
    assert(t.ids() === (0L until 10L).diff(Seq(2L, 5L) ++ loser))
  }
}

/** Races in a JVM of its own, one for each of the tables given, each held at one of the points. */
object KilledDriver {

  /**
   * @param committed whether the statement has happened there
   * @param mergedOrphans DV files of the resolution that exist there and that no commit names
   * @param vacuumed whether the test lets VACUUM take them
   */
  sealed abstract class Point(
      val name: String,
      operation: String,
      file: HPath => Boolean,
      val committed: Boolean = false,
      val mergedOrphans: Int = 0,
      done: Boolean = false,
      val vacuumed: Boolean = false) {

    /** Stands still for ever at this point in the table, and counts down `there` before. */
    def hold(table: Path, there: CountDownLatch): StorageProbe = new StorageProbe {
      override def watches(path: HPath): Boolean =
        path.toUri.getPath.startsWith(table.toString) && file(path)
      override def before(call: StorageCall): Unit = stand(call, after = false)
      override def after(call: StorageCall): Unit = stand(call, after = true)
      private def stand(call: StorageCall, after: Boolean): Unit =
        if (call.operation == operation && after == done) {
          there.countDown()
          new CountDownLatch(1).await()
        }
    }
  }

  private def isCommit(path: HPath): Boolean = path.getName.endsWith("0002.json")
  private def isDv(path: HPath): Boolean = StorageProbe.isDv(path)

  private object Reading extends Point("while it reads deletion vectors", "open", isDv)
  private object BeforeDv extends Point("before the DV is written", "create", isDv)
  private object HalfDv
    extends Point("while the DV is written", "close", isDv, mergedOrphans = 1, vacuumed = true)
  private object AfterDv
    extends Point("after the DV is written", "close", isDv, mergedOrphans = 1, done = true)
  private object BeforeCommit
    extends Point("before the commit", "rename", isCommit, mergedOrphans = 1)
  private object AfterCommit
    extends Point("after the commit", "rename", isCommit, committed = true, done = true)

  val points: Seq[Point] = Seq(Reading, BeforeDv, HalfDv, AfterDv, BeforeCommit, AfterCommit)

  def main(args: Array[String]): Unit = {
    RlcSession.withConf(RlcSession.on, ProbedFileSystem.options: _*) {
      points.zip(args).foreach { case (point, arg) =>
        val dir = Paths.get(arg)
        val t = new TestTable(TableSpec(), RlcSession.on, Some((dir, s"delta.`$dir`")))
        val a = t.begin("DELETE FROM {t} WHERE id = 1")
        t.run("DELETE FROM {t} WHERE id = 2")
        val there = new CountDownLatch(1)
        val held = new Thread(() => {
          val (outcome, _) = ProbedFileSystem.watch(point.hold(dir, there))(a.finish())
          Console.out.println(s"not held ${point.name}: $outcome")
          System.exit(1)
        })
        held.setDaemon(true)
        held.start()
        there.await()
      }
      Console.out.println("READY")
      new CountDownLatch(1).await()
    }
  }
}
