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
import org.apache.spark.sql.delta.rlc.harness.RlcSession
import org.apache.spark.sql.delta.rlc.storage.SyntheticTable

/**
 * One resolution of very many files, and one after very many winners: time for each of them, and
 * the memory that the deletion vectors take. Run with a small heap (512 MB in the build), so that
 * memory that grows without bound ends it. With the argument `check` the largest of each kind alone.
 */
object ScaleBench {

  def main(args: Array[String]): Unit = {
    val report = new BenchReport("scale",
      Seq("shared files", "winners", "resolution ms", "us per file", "us per winner", "DV bytes"))
    def measure(files: Int, winners: Int): Unit = {
      val pass = resolve(files, winners)
      report.add(files, winners, pass.micros / 1000.0, pass.micros.toDouble / files,
        pass.micros.toDouble / winners, pass.bytesRead + pass.bytesWritten)
    }
    if (args.contains("check")) {
      measure(files = 10000, winners = 1)
      measure(files = 10, winners = 200)
    } else {
      resolve(files = 100, winners = 10) // warms up
      Seq(100, 1000, 10000).foreach(measure(_, winners = 1))
      Seq(10, 50, 200).foreach(measure(files = 10, _))
      report.save()
    }
    RlcSession.on.stop()
  }

  /** Each winner deletes one more row of every file; the loser's row is none of them. */
  def resolve(files: Int, winners: Int): Resolution = {
    val dir = Files.createTempDirectory(RlcSession.root, "scale-bench")
    val t = new SyntheticTable(RlcSession.on, dir, files, rows = 1000000L)
    val loser = t.startLoser()
    val actions = t.prepare(loser, t.files.map(_ -> (0L until 50L).map(_ * 20)).toMap)
    t.deleteInTurn((1 to winners).map(w => t.files.map(_ -> Seq(w * 20L + 1)).toMap))
    var pass: Option[Resolution] = None
    val listener: ResolutionListener = r => pass = Some(r)
    RowLevelConcurrency.addListener(listener)
    try loser.commit(actions, ManualUpdate)
    finally RowLevelConcurrency.removeListener(listener)
    require(pass.exists(_.merged.size == files), s"$pass")
    pass.get
  }
}
