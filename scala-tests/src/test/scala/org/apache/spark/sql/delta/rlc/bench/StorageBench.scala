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
package org.apache.spark.sql.delta.rlc.bench

import java.nio.file.Files

import io.github.deltarlc.{Resolution, ResolutionListener, RowLevelConcurrency}

import org.apache.spark.sql.delta.DeltaOperations.ManualUpdate
import org.apache.spark.sql.delta.rlc.harness.{ProbedFileSystem, RlcSession, StorageCall, StorageProbe}
import org.apache.spark.sql.delta.rlc.storage.SyntheticTable
import org.apache.spark.sql.delta.storage.dv.DeletionVectorStore

/**
 * How long one resolution takes when every call to the storage takes 30 ms, for 1 to 1,000 files
 * that both sides changed; beside it the same deletion vectors read one after the other with
 * Delta's own store, as code that resolves file by file would.
 *
 * DVs lie either all in one DV file for each side (as one Spark task writes them) or each in a DV
 * file of its own, the worst there can be.
 */
object StorageBench {

  private val LATENCY_MS = 30L
  private val slow = new StorageProbe {
    override def before(call: StorageCall): Unit =
      // Bytes are buffered until close, which is the upload.
      if (call.operation != "write") Thread.sleep(LATENCY_MS)
  }
  /** More files than this are not read one by one: the time is a straight line. */
  private val MAX_ONE_BY_ONE = 100

  def main(args: Array[String]): Unit = {
    val spark = RlcSession.on
    val report = new BenchReport("storage", Seq("shared files", "DV files", "calls", "resolution ms",
      "one by one ms", "ratio"))
    RlcSession.withConf(spark, ProbedFileSystem.options: _*) {
      resolve(files = 10, dvsPerFile = 1) // warms up
      for (packed <- Seq(true, false); files <- Seq(1, 10, 100, 1000)) {
        val (millis, calls, oneByOne) = resolve(files, if (packed) Int.MaxValue else 1)
        report.add(files, if (packed) 2 else 2 * files, calls, millis,
          oneByOne.getOrElse(Double.NaN), oneByOne.fold(Double.NaN)(_ / millis))
      }
    }
    report.save()
    spark.stop()
  }

  private def resolve(files: Int, dvsPerFile: Int): (Double, Int, Option[Double]) = {
    val dir = Files.createTempDirectory(RlcSession.root, "storage-bench")
    val t = new SyntheticTable(RlcSession.on, dir, files, rows = 1000L, dvsPerFile)
    val loser = t.startLoser()
    val actions = t.prepare(loser, t.files.map(_ -> Seq(1L)).toMap)
    t.delete(t.files.map(_ -> Seq(2L)).toMap)
    var pass: Option[Resolution] = None
    val listener: ResolutionListener = r => pass = Some(r)
    RowLevelConcurrency.addListener(listener)
    val calls =
      try ProbedFileSystem.watch(slow)(loser.commit(actions, ManualUpdate))._2
      finally RowLevelConcurrency.removeListener(listener)
    require(pass.exists(_.merged.size == files), s"$pass")
    val store = DeletionVectorStore.createInstance(t.log.newDeltaHadoopConf())
    val entries = t.log.update().allFiles.collect().take(MAX_ONE_BY_ONE)
    val began = System.nanoTime()
    // Two DVs of each file: the loser's and the winner's.
    ProbedFileSystem.watch(slow) {
      entries.foreach(f => (1 to 2).foreach(_ => store.read(f.deletionVector, t.log.dataPath)))
    }
    val oneByOne = (System.nanoTime() - began) / 1e6
    (pass.get.micros / 1000.0, calls.size, if (files <= MAX_ONE_BY_ONE) Some(oneByOne) else None)
  }
}
