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

import java.nio.file.Files

import io.github.deltarlc.{Resolution, ResolutionListener, RowLevelConcurrency}
import io.delta.exceptions.DeltaConcurrentModificationException
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.delta.DeltaOperations.ManualUpdate
import org.apache.spark.sql.delta.actions.AddFile
import org.apache.spark.sql.delta.rlc.RowLevelConcurrencyConf.Settings
import org.apache.spark.sql.delta.rlc.harness.{ProbedFileSystem, RlcSession, StorageCall, StorageProbe}
import org.apache.spark.sql.SparkSession

/**
 * How often a resolution goes to the storage: one read of each deletion vector that the answer
 * depends on, whatever the number of winners, and one new file.
 */
class StorageRoundTripsSuite extends AnyFunSuite {

  private def spark: SparkSession = RlcSession.on

  private def table(files: Int, rows: Long = 1000L): SyntheticTable =
    new SyntheticTable(spark, Files.createTempDirectory(RlcSession.root, "synthetic"), files, rows)

  /** The passes that `body` came to. */
  private def passes(body: => Unit): Seq[Resolution] = {
    var seen = Vector.empty[Resolution]
    val listener: ResolutionListener = r => seen :+= r
    RowLevelConcurrency.addListener(listener)
    try body finally RowLevelConcurrency.removeListener(listener)
    seen
  }

  private def probed[T](body: => T): T = RlcSession.withConf(spark, ProbedFileSystem.options: _*)(body)

  private def count(calls: Seq[StorageCall], operation: String): Int =
    calls.count(_.operation == operation)

  Seq(1, 10, 1000).foreach { files =>
    test(s"$files shared files without a base: two opens, one create, one look at what it made") {
      probed {
        val t = table(files)
        val loser = t.startLoser()
        val actions = t.prepare(loser, t.files.map(_ -> Seq(1L)).toMap)
        t.delete(t.files.map(_ -> Seq(2L)).toMap)
        val (resolutions, calls) = ProbedFileSystem.watch() {
          passes(loser.commit(actions, ManualUpdate))
        }
        assert(resolutions.size === 1)
        val pass = resolutions.head
        assert(pass.merged.size === files)
        assert(pass.dvReads === 2 * files, "the loser's DV and the winner's of each file")
        assert(count(calls, "open") === 2, s"one open for each of the two DV files")
        // 1,000 DVs of a few bytes lie within one span.
        assert(count(calls, "read") === 2)
        assert(count(calls, "create") === 1)
        assert(count(calls, "delete") === 0)
        val merged = calls.filter(_.path.getName == pass.dvFilesWritten.head).map(_.operation)
        assert(merged.count(_ == "status") === 1)
        assert(merged.takeRight(2) === Seq("close", "status"))
        assert(t.deleted() === t.files.map(_ -> Seq(1L, 2L)).toMap)
      }
    }
  }

  test("a chain of 20 winners costs the reads of one: base, loser and the last winner") {
    probed {
      val t = table(files = 3)
      t.delete(t.files.map(_ -> Seq(900L)).toMap)
      val loser = t.startLoser()
      val actions = t.prepare(loser, t.files.map(_ -> Seq(1L)).toMap)
      t.deleteInTurn((1 to 20).map(i => t.files.map(_ -> Seq(100L + i)).toMap))
      val (resolutions, calls) = ProbedFileSystem.watch() {
        passes(loser.commit(actions, ManualUpdate))
      }
      assert(resolutions.map(_.merged.size) === Seq(3))
      assert(resolutions.map(_.dvReads) === Seq(9))
      assert(count(calls, "open") === 3)
      assert(count(calls, "create") === 1)
      val expected = (Seq(1L, 900L) ++ (101L to 120L)).sorted
      assert(t.deleted() === t.files.map(_ -> expected).toMap)
    }
  }

  test("a file the loser did not touch and that had no DV is not read") {
    probed {
      val t = table(files = 2)
      val loser = t.startLoser()
      val actions = t.prepare(loser, Map(t.files(0) -> Seq(1L)))
      t.delete(Map(t.files(1) -> Seq(2L)))
      val (resolutions, calls) = ProbedFileSystem.watch() {
        passes(loser.commit(actions, ManualUpdate))
      }
      assert(resolutions.size === 1)
      val pass = resolutions.head
      assert(pass.untouched === Seq(t.files(1)))
      assert(pass.merged === Nil)
      assert(calls === Nil)
      assert(t.deleted() === Map(t.files(0) -> Seq(1L), t.files(1) -> Seq(2L)))
    }
  }

  test("a second pass reads the new winner's DVs alone and replaces the merged file") {
    probed {
      val t = table(files = 5)
      t.delete(t.files.map(_ -> Seq(900L)).toMap)
      val loser = t.startLoser()
      val actions = t.prepare(loser, t.files.map(_ -> Seq(1L)).toMap)
      t.delete(t.files.map(_ -> Seq(2L)).toMap)
      var seen = Vector.empty[Resolution]
      val listener: ResolutionListener = { r =>
        seen :+= r
        // Between the end of the first pass and the commit it was for.
        if (r.pass == 1) t.delete(t.files.map(_ -> Seq(3L)).toMap)
      }
      RowLevelConcurrency.addListener(listener)
      val (_, calls) =
        try {
          ProbedFileSystem.watch() {
            loser.commit(actions, ManualUpdate)
          }
        } finally RowLevelConcurrency.removeListener(listener)
      assert(seen.map(_.pass) === Seq(1, 2))
      assert(seen.map(_.dvReads) === Seq(15, 5))
      val merged = seen.flatMap(_.dvFilesWritten)
      assert(merged.size === 2)
      assert(calls.filter(_.operation == "delete").map(_.path.getName) === Seq(merged.head),
        "the first pass's file is named by no commit")
      assert(t.deleted() === t.files.map(_ -> Seq(1L, 2L, 3L, 900L)).toMap)
    }
  }

  test("a conflict that no DV can settle costs no read and leaves no file") {
    probed {
      val t = table(files = 3)
      val loser = t.startLoser()
      val actions = t.prepare(loser, t.files.map(_ -> Seq(1L)).toMap)
      t.delete(Map(t.files(0) -> Seq(2L)))
      val append = AddFile("new.parquet", Map.empty, 1L, 1L,
        dataChange = true, stats = """{"numRecords":1}""")
      t.log.startTransaction(None)
        .commit(Seq(append), ManualUpdate)
      val (_, calls) = ProbedFileSystem.watch() {
        intercept[DeltaConcurrentModificationException] {
          loser.commit(actions, ManualUpdate)
        }
      }
      assert(calls === Nil)
    }
  }

  Seq(
    "deletion vectors" -> 20000L, // they have 80 KB, the winner's commit some 8
    "winning commits" -> 1000L
  ).foreach { case (what, limit) =>
    test(s"$what above maxDvBytes: nothing is read, and Delta's conflict names the limit") {
      probed {
        val t = table(files = 10, rows = 1000000L)
        val loser = t.startLoser(Settings(maxResolutionTimeMs = 60000L, maxDvBytes = limit))
        val scattered = (0L until 2000L).map(_ * 400)
        val actions = t.prepare(loser, t.files.map(_ -> scattered).toMap)
        t.delete(t.files.map(_ -> scattered.map(_ + 1)).toMap)
        val ((resolutions, conflict), calls) = ProbedFileSystem.watch() {
          var thrown: Option[Throwable] = None
          val seen = passes {
            thrown = Some(intercept[DeltaConcurrentModificationException] {
              loser.commit(actions, ManualUpdate)
            })
          }
          (seen, thrown.get)
        }
        assert(calls === Nil)
        assert(resolutions.flatMap(_.refusals).map(_.rule).distinct === Seq("BUDGET"))
        val reasons = conflict.getSuppressed.map(_.getMessage)
        assert(reasons.exists(reason => reason.contains(what) && reason.contains(
          s"spark.databricks.delta.rowLevelConcurrency.maxDvBytes = $limit")), reasons.toSeq)
      }
    }
  }

  test("a pass above maxResolutionTimeMs ends in Delta's conflict, which names the limit") {
    probed {
      val t = table(files = 1)
      val loser = t.startLoser(Settings(maxResolutionTimeMs = 1L, maxDvBytes = 1L << 20))
      val actions = t.prepare(loser, t.files.map(_ -> Seq(1L)).toMap)
      t.delete(t.files.map(_ -> Seq(2L)).toMap)
      // A store that does not answer until the pass has given up on it.
      val givenUp = new java.util.concurrent.CountDownLatch(1)
      val silent = new StorageProbe {
        override def before(call: StorageCall): Unit =
          if (call.operation == "open") givenUp.await()
      }
      val (conflict, _) = ProbedFileSystem.watch(silent) {
        try {
          intercept[DeltaConcurrentModificationException] {
            loser.commit(actions, ManualUpdate)
          }
        } finally givenUp.countDown()
      }
      assert(conflict.getSuppressed.exists(_.getMessage.contains(
        "spark.databricks.delta.rowLevelConcurrency.maxResolutionTimeMs = 1 ms")))
      assert(t.deleted() === Map(t.files.head -> Seq(2L)))
    }
  }
}
