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
package org.apache.spark.sql.delta.rlc.smoke

import io.delta.exceptions.ConcurrentAppendException
import io.github.deltarlc.BuildInfo

import org.apache.spark.sql.delta.rlc.harness._

/**
 * The few tests that run on every combination of Delta and Spark that a jar is built for: a pair of
 * each statement, an overlap, and the switch. The pack of invariants and the serial replay behind
 * `bothCommit` look at all that differs between versions of Delta in a commit.
 */
class SmokeSuite extends RowLevelTest {
  import TableSpec._

  test("the versions are those the jar was built for, or another patch of that Spark") {
    def minor(version: String): String = version.split('.').take(2).mkString(".")
    val spark = org.apache.spark.SPARK_VERSION
    assert(io.delta.VERSION === BuildInfo.deltaVersion)
    assert(spark === System.getProperty("delta.rlc.test.spark"))
    assert(minor(spark) === minor(BuildInfo.sparkVersion))
  }

  test("disjoint DELETEs both commit") {
    val t = bothCommit(
      TableSpec(), "DELETE FROM {t} WHERE id = 1", Seq("DELETE FROM {t} WHERE id IN (2, 3)"))
    assert(t.ids() === Seq(0, 4, 5, 6, 7, 8, 9))
  }

  test("disjoint UPDATEs both commit where the winner's row moves out of sight") {
    bothCommit(
      partitioned.cdf.rowTracking.ict,
      "UPDATE {t} SET v = -1 WHERE id = 1 AND p = 0", Seq("UPDATE {t} SET p = 1 WHERE id = 2"))
  }

  test("disjoint MERGEs both commit over a base deletion vector, the upsert as the loser") {
    val t = bothCommit(
      TableSpec().after("DELETE FROM {t} WHERE id = 9"),
      """MERGE INTO {t} USING (SELECT explode(array(1, 100)) AS k) s ON id = s.k
        |WHEN MATCHED THEN UPDATE SET v = -1
        |WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.k, -2)""".stripMargin,
      Seq("MERGE INTO {t} USING (SELECT 2 AS k) s ON id = s.k WHEN MATCHED THEN DELETE"))
    assert(t.ids() === Seq(0, 1, 3, 4, 5, 6, 7, 8, 100))
  }

  test("overlapping DELETEs end in Delta's conflict") {
    val t = loserAborts[ConcurrentAppendException](
      TableSpec(), "DELETE FROM {t} WHERE id IN (1, 2)", Seq("DELETE FROM {t} WHERE id IN (2, 3)"),
      refusedBy = "P5")
    assert(t.ids() === Seq(0, 1, 4, 5, 6, 7, 8, 9))
  }

  test("with the flag off disjoint DELETEs end in Delta's conflict") {
    val t = new TestTable(TableSpec(), RlcSession.off)
    val a = t.begin("DELETE FROM {t} WHERE id = 1")
    t.run("DELETE FROM {t} WHERE id = 2")
    t.conflict[ConcurrentAppendException](a)
    assert(a.resolutions.isEmpty)
  }
}
