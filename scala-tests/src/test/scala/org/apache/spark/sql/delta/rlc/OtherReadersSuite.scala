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

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.delta.rlc.harness._

/**
 * Merged tables, read by stock Delta and by two readers that share no code with it. Stock Delta
 * without our jar beside it reads one in FleetSuite.
 */
class OtherReadersSuite extends RowLevelTest {

  private def delete(ids: Int*): Statement =
    s"DELETE FROM {t} WHERE id IN (${ids.mkString(", ")})"

  // What else must hold of them is tested elsewhere.
  private def merge(spec: TableSpec, loser: Statement, winners: Seq[Statement], merged: Int = 1) =
    bothCommit(spec, loser, winners, merged, options = CheckOptions.winnersOnly)

  /** Tables of every shape that a merge leaves, with what it is. */
  private lazy val merged: Seq[(String, TestTable)] = Seq(
    "no base" -> merge(TableSpec(), delete(1, 9), Seq(delete(2))),
    "a base, several winners, a checkpoint" -> {
      val t = merge(TableSpec().after("DELETE FROM {t} WHERE id = 0"), delete(1),
        Seq(delete(2), delete(3)))
      t.log.checkpoint(t.log.update())
      t
    },
    "an UPDATE, row tracking, change feed" -> merge(TableSpec.mixedFiles.cdf.rowTracking,
      "UPDATE {t} SET v = -1 WHERE id IN (1, 2)", Seq(delete(3, 4)), merged = 2),
    "a MERGE into partitions" -> merge(TableSpec.partitioned,
      "MERGE INTO {t} USING (SELECT explode(array(1, 6, 100)) AS k) s ON id = s.k " +
        "WHEN MATCHED THEN UPDATE SET v = 7 " +
        "WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (k, 8, 0)",
      Seq(delete(2, 7)), merged = 2),
    "a file that is gone" -> merge(TableSpec.twoFiles,
      delete(0, 1, 2, 3, 4, 12), Seq(delete(5, 6, 7, 8, 9, 13)), merged = 2))

  private def stock(t: TestTable): Seq[(Long, Long)] =
    RlcSession.off.sql(s"SELECT id, v FROM ${t.name} ORDER BY id, v").collect()
      .map(r => (r.getLong(0), r.getLong(1))).toSeq

  test("[S73] Delta Kernel reads the rows that stock Delta reads") {
    assume(KernelReader.canRun)
    merged.foreach { case (what, t) =>
      withClue(s"$what: ")(assert(KernelReader.rows(t.dir.toString) === stock(t)))
    }
  }

  test("[S73] delta-rs reads the rows that stock Delta reads") {
    val folders = merged.map(_._2.dir.toString)
    val lines = python("read_delta.py", folders).map(LogReplay.parse(_))
    assert(lines.size === merged.size)
    merged.zip(lines).foreach { case ((what, t), line) =>
      withClue(s"$what: ") {
        assert(line.get("version").asLong() === t.version)
        assert(line.get("rows").asScala.map(r => (r.get(0).asLong(), r.get(1).asLong())).toSeq ===
          stock(t))
      }
    }
  }

  /** Runs a script of the tests in the environment that `./dev test` makes for it. */
  private def python(script: String, args: Seq[String]): Seq[String] = {
    val root = Paths.get(System.getProperty("delta.rlc.test.root"))
    val interpreter: Path = root.resolve("build/venv-deltalake/bin/python")
    assert(Files.isExecutable(interpreter), s"there is no $interpreter: ./dev readers makes it")
    val file = root.resolve("scala-tests/src/test/python").resolve(script)
    val process = new ProcessBuilder((Seq(interpreter.toString, file.toString) ++ args): _*)
      .redirectErrorStream(true).start()
    process.getOutputStream.close()
    val said = new String(process.getInputStream.readAllBytes(), UTF_8)
    assert(process.waitFor() === 0, said)
    said.linesIterator.toSeq
  }
}
