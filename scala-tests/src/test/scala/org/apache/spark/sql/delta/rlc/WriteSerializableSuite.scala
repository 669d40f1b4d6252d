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

import io.delta.exceptions.ConcurrentAppendException

import org.apache.spark.sql.delta.rlc.harness._

/**
 * G12 and the column WriteSerializable of the scenarios. Stock Delta refuses to set that level, so
 * the tables get it by a raw metadata commit, as from another engine. It lets a blind append pass
 * unseen, and so the loser may be placed before an append that is before it in the log: the serial
 * order to compare with is then another one than the log's.
 */
class WriteSerializableSuite extends RowLevelTest {
  import TableSpec._

  private def delete(ids: Int*): Statement =
    s"DELETE FROM {t} WHERE id IN (${ids.mkString(", ")})"
  private val append: Statement =
    "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, id * 10 FROM range(20, 22)"

  for ((level, spec) <- Seq("Serializable" -> TableSpec(), "WriteSerializable" -> TableSpec().ws)) {

    test(s"disjoint DELETEs both commit under $level") {
      bothCommit(spec, delete(1), Seq(delete(2)))
    }

    test(s"[S35] [G12] a DELETE after an append, both winners, conflicts under $level") {
      val t = loserAborts[ConcurrentAppendException](spec, delete(1), Seq(append, delete(2)))
      assert(t.ids().contains(1L))
    }

    test(s"[S37] [G12] three parties that fit no order conflict under $level") {
      // 2.4(p): the loser before the append, the append before the last DELETE, that one before the
      // loser.
      val t = loserAborts[ConcurrentAppendException](
        spec.copy(files = Seq("SELECT * FROM VALUES (1L, 5L), (2L, 150L), (3L, 50L) AS x(id, v)")),
        "UPDATE {t} SET v = v + 195 WHERE v BETWEEN 5 AND 10",
        Seq(Statement.of("append two files") { (s, name) =>
          s.sql("SELECT * FROM VALUES (102L, 6L), (104L, 150L) AS x(id, v)").repartition(2)
            .write.format("delta").mode("append").save(Statement.pathOf(name))
        }, "DELETE FROM {t} WHERE v > 100"))
      assert(t.rows().contains("[102,6]") && t.rows().contains("[1,5]"))
    }

    test(s"[S39] [P2] a DELETE in an appended file does not hide the append under $level") {
      loserAborts[ConcurrentAppendException](spec,
        "DELETE FROM {t} WHERE v > 0 AND id < 15 OR id = 1", Seq(append, delete(20)))
    }

    test(s"an UPDATE's image conflicts under $level") {
      loserAborts[ConcurrentAppendException](
        spec, delete(1), Seq("UPDATE {t} SET v = -1 WHERE id = 2"))
    }

    test(s"an overlap conflicts under $level") {
      loserAborts[ConcurrentAppendException](spec, delete(1), Seq(delete(1, 2)), refusedBy = "P5")
    }

    test(s"[S36] a blind append to another partition commits beside a merge under $level") {
      val base = if (level == "Serializable") partitioned else partitioned.ws
      bothCommit(base, "DELETE FROM {t} WHERE p = 0 AND id = 1",
        Seq("DELETE FROM {t} WHERE p = 0 AND id = 2", "INSERT INTO {t} VALUES (77, 770, 1)"))
    }
  }

  test("[S35b] a blind append after a DELETE, both winners, conflicts under Serializable") {
    loserAborts[ConcurrentAppendException](TableSpec(), delete(1), Seq(delete(2), append))
  }

  test("[S35b] [G12] a blind append after a DELETE, both winners: the loser commits, level WS") {
    val t = bothCommit(TableSpec().ws, delete(1), Seq(delete(2), append))
    assert(t.ids() === Seq(0, 3, 4, 5, 6, 7, 8, 9, 20, 21))
  }

  test("[S38] a blind append alone conflicts under Serializable") {
    loserAborts[ConcurrentAppendException](TableSpec(), delete(1), Seq(append))
  }

  test("[S38] a blind append alone is let pass under WriteSerializable, as on stock") {
    val t = table(TableSpec().ws)
    val a = t.begin(delete(1))
    t.run(append)
    t.commit(a)
    assert(lastResolution(a).merged.isEmpty)
    t.check()
  }

  test("[S35] [G12] the append of one pass counts in the next") {
    val t = table(TableSpec().ws)
    val a = t.begin(delete(1))
    t.run(append)
    a.afterPass(1)(t.run(delete(2)))
    t.conflict[ConcurrentAppendException](a)
    assertRefused(a, "G12")
    t.check(CheckOptions.winnersOnly)
  }

  test("[G12] a file merged before the append of a later pass stays merged") {
    val t = table(TableSpec().ws)
    val a = t.begin(delete(1))
    t.run(delete(2))
    a.afterPass(1)(t.run(append))
    t.commit(a)
    assert(a.resolutions.map(_.merged.size) === Seq(1, 0))
    t.check()
  }
}
