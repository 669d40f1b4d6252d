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
 * The few tests that run on every combination of Delta and Spark that a jar is built for: each
 * statement as loser and as winner, an overlap, and the switch. The pack of invariants and the
 * serial replay behind `bothCommit` look at all that differs between versions of Delta in a commit.
 */
class SmokeSuite extends RowLevelTest {
  import TableSpec._

  test("the versions are those the jar was built for") {
    assert(io.delta.VERSION === BuildInfo.deltaVersion)
    assert(org.apache.spark.SPARK_VERSION === BuildInfo.sparkVersion)
  }

  test("disjoint DELETEs both commit") {
    val t = bothCommit(
      TableSpec(), "DELETE FROM {t} WHERE id = 1", Seq("DELETE FROM {t} WHERE id IN (2, 3)"))
    assert(t.ids() === Seq(0, 4, 5, 6, 7, 8, 9))
  }

  test("an UPDATE commits beside a disjoint DELETE, with all that a commit can carry") {
    val t = bothCommit(
      TableSpec().cdf.rowTracking.ict.after("DELETE FROM {t} WHERE id = 9"),
      "UPDATE {t} SET v = -1 WHERE id = 1", Seq("DELETE FROM {t} WHERE id = 2"))
    assert(t.rows().contains("[1,-1]"))
    assert(t.ids() === Seq(0, 1, 3, 4, 5, 6, 7, 8))
  }

  test("UPDATEs of different rows both commit where the winner's rows move out of sight") {
    bothCommit(
      partitioned, "UPDATE {t} SET v = -1 WHERE id = 1 AND p = 0",
      Seq("UPDATE {t} SET p = 1 WHERE id = 2"))
  }

  test("disjoint MERGEs both commit, the upsert as the loser") {
    val t = bothCommit(
      TableSpec(),
      """MERGE INTO {t} USING (SELECT explode(array(1, 100)) AS k) s ON id = s.k
        |WHEN MATCHED THEN UPDATE SET v = -1
        |WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.k, -2)""".stripMargin,
      Seq("MERGE INTO {t} USING (SELECT 2 AS k) s ON id = s.k WHEN MATCHED THEN DELETE"))
    assert(t.ids() === Seq(0, 1, 3, 4, 5, 6, 7, 8, 9, 100))
  }

  test("a file that two DELETEs empty together is removed whole") {
    bothCommit(
      TableSpec(files = Seq(rows(0, 2), rows(10, 12))),
      "DELETE FROM {t} WHERE id = 0", Seq("DELETE FROM {t} WHERE id = 1"))
  }

  test("a file that only the winner changed does not matter") {
    bothCommit(twoFiles, "DELETE FROM {t} WHERE id = 1", Seq("DELETE FROM {t} WHERE id = 11"),
      merged = 0, untouched = 1)
  }

  test("a second pass merges again") {
    val t = table()
    val a = t.begin("DELETE FROM {t} WHERE id = 1")
    t.run("DELETE FROM {t} WHERE id = 2")
    a.afterPass(1)(t.run("DELETE FROM {t} WHERE id = 3"))
    t.commit(a)
    assert(a.resolutions.size === 2)
    assertResolved(a, merged = 1, untouched = 0)
    t.check()
  }

  test("overlapping DELETEs end in Delta's conflict") {
    val t = loserAborts[ConcurrentAppendException](
      TableSpec(), "DELETE FROM {t} WHERE id IN (1, 2)", Seq("DELETE FROM {t} WHERE id IN (2, 3)"),
      refusedBy = "P5")
    assert(t.ids() === Seq(0, 1, 4, 5, 6, 7, 8, 9))
  }

  test("a MERGE from its own target ends in Delta's conflict") {
    loserAborts[ConcurrentAppendException](
      TableSpec(),
      """MERGE INTO {t} USING (SELECT max(id) AS k FROM {t}) s ON id = s.k
        |WHEN MATCHED THEN DELETE""".stripMargin,
      Seq("DELETE FROM {t} WHERE id = 2"), refusedBy = "G7")
  }

  test("a RESTORE that brings rows back ends in Delta's conflict") {
    loserAborts[ConcurrentAppendException](
      TableSpec().after("DELETE FROM {t} WHERE id = 2"),
      "DELETE FROM {t} WHERE id = 1", Seq("RESTORE TABLE {t} TO VERSION AS OF 0"))
  }

  test("with the flag off disjoint DELETEs end in Delta's conflict") {
    val t = new TestTable(TableSpec(), RlcSession.off)
    val a = t.begin("DELETE FROM {t} WHERE id = 1")
    t.run("DELETE FROM {t} WHERE id = 2")
    t.conflict[ConcurrentAppendException](a)
    assert(a.resolutions.isEmpty)
  }
}
