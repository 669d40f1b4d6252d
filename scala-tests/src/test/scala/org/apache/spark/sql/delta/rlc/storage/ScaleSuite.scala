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
import java.util.concurrent.{CountDownLatch, TimeUnit}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.delta.DeltaOperations.ManualUpdate
import org.apache.spark.sql.delta.rlc.DeletionVectorReader
import org.apache.spark.sql.delta.rlc.bench.ScaleBench
import org.apache.spark.sql.delta.rlc.harness._

/** Very many files, very many winners, and a store that takes its time. */
class ScaleSuite extends AnyFunSuite {

  test("10,000 shared files in one pass, and 200 winners, in a heap of 512 MB") {
    val other = new ChildJvm(
      ScaleBench.getClass.getName.stripSuffix("$"), Seq("check"),
      ChildJvm.small :+ "-Xmx512m")
    assert(other.end() === 0, other.output.mkString("\n"))
  }

  test("a pass that waits for the store says how far it is") {
    val said = new CountDownLatch(1)
    def listen(line: String): Unit = if (line.contains("0 of 2 files read")) said.countDown()
    val patient = new StorageProbe {
      // Answers when the pass has said that it waits.
      override def before(call: StorageCall): Unit =
        if (call.operation == "open") assert(said.await(2, TimeUnit.MINUTES))
    }
    RlcSession.withConf(RlcSession.on, ProbedFileSystem.options: _*) {
      val dir = Files.createTempDirectory(RlcSession.root, "progress")
      val t = new SyntheticTable(RlcSession.on, dir, fileCount = 1, rows = 100L)
      val loser = t.startLoser()
      val actions = t.prepare(loser, Map(t.files.head -> Seq(1L)))
      t.delete(Map(t.files.head -> Seq(2L)))
      LogLines.listening(classOf[DeletionVectorReader])(listen) {
        ProbedFileSystem.watch(patient)(loser.commit(actions, ManualUpdate))
      }
      assert(t.deleted() === Map(t.files.head -> Seq(1L, 2L)))
    }
  }
}
