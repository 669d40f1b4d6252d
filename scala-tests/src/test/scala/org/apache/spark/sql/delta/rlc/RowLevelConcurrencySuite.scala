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

import io.delta.exceptions.{ConcurrentAppendException, ConcurrentDeleteReadException}

import org.apache.spark.sql.delta.rlc.harness._

/** The main job, statement by statement: what commits beside what, and what still aborts. */
class RowLevelConcurrencySuite extends RowLevelTest {
  import TableSpec._

  private def mergeDelete(ids: Int*): Statement =
    s"""MERGE INTO {t} USING (SELECT explode(array(${ids.mkString(", ")})) AS k) s ON id = s.k
       |WHEN MATCHED THEN DELETE""".stripMargin
  private def mergeUpdate(id: Int): Statement =
    s"""MERGE INTO {t} USING (SELECT $id AS k) s ON id = s.k
       |WHEN MATCHED THEN UPDATE SET v = -1""".stripMargin
  private def delete(ids: Int*): Statement =
    s"DELETE FROM {t} WHERE id IN (${ids.mkString(", ")})"
  private def update(id: Int): Statement = s"UPDATE {t} SET v = -1 WHERE id = $id"

  private def cardinalities(t: TestTable): Seq[Long] =
    t.replay.live.flatMap(_.dv).map(_.cardinality)

  // ---- DELETE beside DELETE

  test("disjoint concurrent DELETEs on one file both commit") {
    val t = bothCommit(TableSpec(), delete(1), Seq(delete(2)))
    assert(cardinalities(t) === Seq(2))
    assert(t.ids() === Seq(0, 3, 4, 5, 6, 7, 8, 9))
  }

  test("overlapping concurrent DELETEs still conflict") {
    val t = loserAborts[ConcurrentAppendException](
      TableSpec(), delete(1, 2), Seq(delete(2, 3)), refusedBy = "P5")
    assert(t.ids() === Seq(0, 1, 4, 5, 6, 7, 8, 9))
  }

  test("disjoint concurrent DELETEs over the same two files are both merged in one pass") {
    val t = table(mixedFiles)
    val a = t.begin(delete(0, 1))
    t.run(delete(2, 3))
    t.commit(a)
    assertResolved(a, merged = 2, untouched = 0)
    assert(a.resolutions.size === 1)
    assert(lastResolution(a).dvFilesWritten.size === 1)
    assert(cardinalities(t) === Seq(2, 2))
    t.check()
  }

  test("concurrent DELETEs on different files of an unpartitioned table both commit") {
    val t = bothCommit(twoFiles, delete(1), Seq(delete(11)), merged = 0, untouched = 1)
    assert(cardinalities(t) === Seq(1, 1))
  }

  // ---- MERGE

  test("disjoint concurrent MERGEs that delete matched rows both commit") {
    val t = bothCommit(TableSpec(), mergeDelete(1), Seq(mergeDelete(2)))
    assert(cardinalities(t) === Seq(2))
  }

  test("overlapping concurrent MERGEs that delete matched rows still conflict") {
    val t = loserAborts[ConcurrentAppendException](
      TableSpec(), mergeDelete(1, 2), Seq(mergeDelete(2, 3)), refusedBy = "P5")
    assert(t.ids() === Seq(0, 1, 4, 5, 6, 7, 8, 9))
  }

  test("a MERGE that deletes matched rows commits beside a disjoint DELETE that won") {
    val t = bothCommit(TableSpec(), mergeDelete(1), Seq(delete(2)))
    assert(cardinalities(t) === Seq(2))
  }

  test("a DELETE commits beside a disjoint MERGE that deleted matched rows and won") {
    val t = bothCommit(TableSpec(), delete(1), Seq(mergeDelete(2)))
    assert(cardinalities(t) === Seq(2))
  }

  test("a MERGE that deletes matched rows conflicts with an overlapping DELETE that won") {
    loserAborts[ConcurrentAppendException](
      TableSpec(), mergeDelete(1, 2), Seq(delete(2)), refusedBy = "P5")
  }

  test("a DELETE conflicts with an overlapping MERGE that deleted matched rows and won") {
    loserAborts[ConcurrentAppendException](
      TableSpec(), delete(1, 2), Seq(mergeDelete(2)), refusedBy = "P5")
  }

  test("a DELETE conflicts with the image file of a MERGE that updated other rows and won") {
    val t = loserAborts[ConcurrentAppendException](
      TableSpec(), delete(1), Seq(mergeUpdate(2)))
    assert(t.rows().contains("[2,-1]"))
  }

  test("a MERGE that updates matched rows commits beside a disjoint DELETE that won") {
    val t = bothCommit(TableSpec(), mergeUpdate(1), Seq(delete(2)))
    assert(t.rows().count(_ == "[1,-1]") === 1)
  }

  // ---- UPDATE

  test("a DELETE conflicts with the image file of an UPDATE of other rows that won") {
    val t = loserAborts[ConcurrentAppendException](TableSpec(), delete(1), Seq(update(2)))
    assert(t.rows().contains("[2,-1]"))
  }

  test("an UPDATE commits beside a DELETE of other rows that won") {
    val t = bothCommit(TableSpec(), update(1), Seq(delete(2)))
    assert(t.rows().count(_ == "[1,-1]") === 1)
    assert(!t.rows().contains("[1,10]"))
  }

  test("concurrent UPDATEs of the same row still conflict") {
    val t = loserAborts[ConcurrentAppendException](
      TableSpec(), update(1), Seq("UPDATE {t} SET v = -2 WHERE id = 1"))
    assert(t.rows().count(_ == "[1,-2]") === 1)
  }

  test("concurrent UPDATEs of different rows conflict on the winner's image file") {
    loserAborts[ConcurrentAppendException](TableSpec(), update(1), Seq(update(2)))
  }

  // ---- the file goes

  test("a DELETE conflicts with a winner that removed the whole file") {
    val t = loserAborts[ConcurrentDeleteReadException](
      TableSpec(), delete(1), Seq("DELETE FROM {t} WHERE id >= 0"), refusedBy = "P1")
    assert(t.ids().isEmpty)
  }

  // ---- three

  private def threeAtOnce(spec: TableSpec): TestTable = {
    val t = table(spec)
    val running = Seq(delete(1), delete(2), delete(3)).map(t.begin(_))
    running.foreach(t.commit)
    running.tail.foreach(assertResolved(_, merged = 1, untouched = 0))
    t.check()
    t
  }

  test("three concurrent disjoint DELETEs all commit") {
    assert(cardinalities(threeAtOnce(TableSpec())) === Seq(3))
  }

  test("three concurrent disjoint DELETEs all commit over a base deletion vector") {
    assert(cardinalities(threeAtOnce(TableSpec().after("DELETE FROM {t} WHERE id = 9"))) === Seq(4))
  }

  test("of three concurrent DELETEs the last aborts when it overlaps with the first") {
    val t = table()
    val a = t.begin(delete(1, 4))
    val b = t.begin(delete(2))
    val c = t.begin(delete(3, 4))
    t.commit(a)
    t.commit(b)
    t.conflict[ConcurrentAppendException](c)
    assertRefused(c, "P5")
    assert(cardinalities(t) === Seq(3))
    t.check()
  }

  // ---- tables

  test("disjoint concurrent DELETEs on one file of a partitioned table both commit") {
    bothCommit(partitioned, delete(1), Seq(delete(2)))
  }

  test("concurrent DELETEs in different partitions both commit") {
    bothCommit(partitioned, "DELETE FROM {t} WHERE p = 0 AND id = 1",
      Seq("DELETE FROM {t} WHERE p = 1 AND id = 6"), merged = 0, untouched = 1)
  }

  test("with the flag off disjoint concurrent DELETEs conflict") {
    val t = table()
    val a = t.begin(delete(1), RlcSession.off)
    t.run(delete(2), RlcSession.off)
    t.conflict[ConcurrentAppendException](a)
    assert(a.resolutions.isEmpty)
    assert(t.ids() === Seq(0, 1, 3, 4, 5, 6, 7, 8, 9))
    t.check()
  }

  test("with deletion vectors off and the flag on disjoint concurrent DELETEs conflict") {
    val t = loserAborts[ConcurrentAppendException](
      TableSpec(deletionVectors = false), delete(1), Seq(delete(2)))
    assert(t.replay.commits.flatMap(_.adds).forall(_.dv.isEmpty))
  }

  test("disjoint concurrent DELETEs over a base deletion vector both commit") {
    val t = bothCommit(
      TableSpec().after("DELETE FROM {t} WHERE id IN (5, 6)"), delete(1), Seq(delete(2)))
    assert(cardinalities(t) === Seq(4))
  }

  test("disjoint concurrent DELETEs commit under an explicit isolation level Serializable") {
    bothCommit(TableSpec().withProperties("delta.isolationLevel" -> "Serializable"),
      delete(1), Seq(delete(2)))
  }

  test("row ids of all surviving rows stay as they were") {
    val t = table(TableSpec().rowTracking)
    def ids(): Map[String, String] = t.rows(columns = "id, _metadata.row_id")
      .map(_.drop(1).dropRight(1).split(',')).map(r => r(0) -> r(1)).toMap
    val before = ids()
    val a = t.begin(update(1))
    val b = t.begin(delete(3))
    t.run(delete(2))
    t.commit(a)
    assertResolved(a, merged = 1, untouched = 0)
    assert(ids() === before - "2")
    t.conflict[ConcurrentAppendException](b)
    t.check()
  }

  test("the change feed has exactly one delete for each deleted row and version") {
    val t = table(TableSpec().cdf)
    val a = t.begin(delete(1, 3))
    val b = t.begin(delete(4))
    val winner = t.run(delete(2))
    val va = t.commit(a).version
    val vb = t.commit(b).version
    assert(t.changes(winner.version) === Seq(s"[2,20,delete,${winner.version}]"))
    assert(t.changes(va) === Seq(s"[1,10,delete,$va]", s"[3,30,delete,$va]"))
    assert(t.changes(vb) === Seq(s"[4,40,delete,$vb]"))
    t.check()
  }
}
