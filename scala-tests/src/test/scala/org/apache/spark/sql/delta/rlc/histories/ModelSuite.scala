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

package org.apache.spark.sql.delta.rlc.histories

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.delta.rlc.harness.TableFiles

/** The model and the checker without Spark: what they compute, and that they can say no. */
class ModelSuite extends AnyFunSuite {

  private def row(id: Long, v: Value = Num(0), s: Value = Str("a")): Record =
    Vector(Num(id), Num(0), v, s)
  private def state(rows: Record*): Vector[ModelRow] =
    rows.zipWithIndex.map { case (r, i) => ModelRow(i + 1L, r) }.toVector
  private def idIs(id: Long): Option[Pred] = Some(Cmp(Col("id"), "=", Const(Num(id))))
  private val onId: Pred = Cmp(Col("id"), "=", Src("id"))
  private def env(rows: Vector[ModelRow]): Env = {
    var next = 100L
    Env(Tables(rows.map(_.values), Nil), _ => Vector.empty, () => { next += 1; next })
  }
  private def run(s: Statement, rows: Vector[ModelRow]): Effect = s.run(rows, env(rows))
  private def ids(rows: Vector[ModelRow]): Vector[Value] = rows.map(_.values.head)

  // ---- the model -----------------------------------------------------------------------------

  test("conditions have three values") {
    val unknown = Cmp(Col("v"), "=", Const(Num(1)))
    val scope = Scope(Some(row(1, Null)), None, Tables(Nil, Nil))
    def value(p: Pred): Option[Boolean] = p.eval(scope)
    val yes = Cmp(Col("id"), "=", Const(Num(1)))
    assert(value(unknown).isEmpty)
    assert(value(Not(unknown)).isEmpty)
    assert(value(Or(unknown, yes)).contains(true))
    assert(value(And(unknown, Not(yes))).contains(false))
    assert(value(And(unknown, yes)).isEmpty)
    assert(value(In(Col("id"), Vector(Num(2), Null))).isEmpty)
    assert(value(In(Col("id"), Vector(Num(1), Null))).contains(true))
    assert(value(Cmp(Col("v"), "<=>", Const(Null))).contains(true))
    assert(value(IsNull(Col("v"))).contains(true))
    assert(value(Cmp(Add(Col("v"), Const(Num(1))), ">", Const(Num(0)))).isEmpty)
  }

  test("DELETE and UPDATE skip rows whose condition is unknown") {
    val rows = state(row(1, Num(5)), row(2, Null), row(3, Num(1)))
    val big = Some(Cmp(Col("v"), ">", Const(Num(2))))
    assert(ids(run(Delete(big), rows).rows) == Vector(Num(2), Num(3)))
    val small = run(Update(Vector("s" -> Const(Str("z"))), Some(Not(big.get))), rows)
    assert(small.changes == Vector(
      Change("update_preimage", row(3, Num(1))),
      Change("update_postimage", row(3, Num(1), Str("z")))))
    assert(small.rows.map(_.rid) == Vector(1L, 2L, 3L))
  }

  test("MERGE takes the first clause whose condition holds, and inserts what matched nothing") {
    val rows = state(row(1, Num(1)), row(2, Num(2)), row(3, Num(3)), row(4, Num(4)))
    val merge = Merge(
      Rows(Vector(row(1, Num(9)), row(2, Num(0)), row(7, Num(9)), row(8, Num(0)), row(9, Null))),
      onId,
      Vector(
        Clause(Some(Cmp(Src("v"), ">", Const(Num(5)))), Some(Vector("v" -> Src("v")))),
        Clause(Some(Cmp(Col("v"), "=", Const(Num(2)))), None)),
      Vector(InsertClause(Some(Cmp(Src("v"), ">=", Const(Num(5)))),
        Columns.names.map(Src(_)))),
      Vector(Clause(idIs(4), None)))
    val effect = run(merge, rows)
    assert(effect.rows.map(_.values) ==
      Vector(row(1, Num(9)), row(3, Num(3)), row(7, Num(9))))
    assert(effect.changes.map(_.kind).sorted == Vector(
      "delete", "delete", "insert", "update_postimage", "update_preimage"))
  }

  test("a MERGE that matches a row twice is an error, not a result") {
    intercept[ModelException] {
      run(Merge(Rows(Vector(row(1), row(1, Num(2)))), onId, Vector(Clause(None, None)),
        Vector.empty, Vector.empty), state(row(1)))
    }
  }

  test("self-reading sources, subqueries and aggregates see the state before the statement") {
    val rows = state(row(1, Num(5)), row(2, Num(200)), row(3, Null))
    val total = Aggregate(Self, "sum", "v", None)
    val set = run(Update(Vector("v" -> Scalar(total)), idIs(3)), rows)
    assert(set.rows.last.values(2) == Num(205))
    val merged = run(Merge(Total(1, total), onId,
      Vector(Clause(None, Some(Vector("v" -> Src("v"))))), Vector.empty, Vector.empty), rows)
    assert(merged.rows.head.values(2) == Num(205))
    assert(Aggregate(Self, "max", "v", idIs(3)).eval(Tables(rows.map(_.values), Nil)) == Null)
    assert(Aggregate(Self, "count", "v", None).eval(Tables(rows.map(_.values), Nil)) == Num(3))
  }

  test("SQL and model come from one statement") {
    val names = Names("t", "o", _ => 4L)
    assert(Delete(idIs(3)).sql(names) == "DELETE FROM t AS t WHERE t.id = 3L")
    assert(Restore(1).sql(names) == "RESTORE TABLE t TO VERSION AS OF 4")
    assert(Update(Vector("v" -> Const(Null)), None).sql(names) == "UPDATE t AS t SET t.v = NULL")
  }

  // ---- the checker ---------------------------------------------------------------------------

  private val base = state(row(1, Num(1)), row(2, Num(2)), row(3, Num(3)))

  /**
   * Runs the checker on a log that says: `done` committed, in this order, at versions 1, 2, ..;
   * the rows after each are `after`.
   */
  private def check(
      done: Vector[(Statement, Long)],
      after: Vector[Vector[Record]],
      table: Table = Table(Vector(base.map(_.values))),
      feed: Option[Map[Long, Vector[Change]]] = None,
      rowIds: Option[Vector[Vector[Long]]] = None): Either[Disagreement, Agreement] = {
    val rows = base.map(_.values) +: after
    val stored = rows.zipWithIndex.map { case (rs, v) =>
      rs.zipWithIndex.map { case (r, i) => StoredRow(r, rowIds.map(_(v)(i))) }
    }
    new Checker(table, Vector(base), _ => 0L,
      done.zipWithIndex.map { case ((s, read), i) =>
        Done(s, Vector(read), Committed(Vector(i + 1L)), Vector.empty)
      },
      Observed(0, stored, feed, rows.map(_ => rowIds.isDefined))).check()
  }
  private def kind(r: Either[Disagreement, Agreement]): String =
    r.fold(_.kind, _ => "agrees")

  private val twoDeletes = Vector(Delete(idIs(1)) -> 0L, Delete(idIs(2)) -> 0L)
  private val afterOne = Vector(row(2, Num(2)), row(3, Num(3)))
  private val afterTwo = Vector(row(3, Num(3)))

  test("two disjoint DELETEs agree with their commit order") {
    assert(kind(check(twoDeletes, Vector(afterOne, afterTwo))) == "agrees")
  }

  test("a lost DELETE is seen") {
    val lost = Vector(row(1, Num(1)), row(3, Num(3)))
    assert(kind(check(twoDeletes, Vector(afterOne, lost))) == "rows")
  }

  test("a wrong middle version is seen although the last one is right") {
    assert(kind(check(twoDeletes, Vector(afterTwo, afterTwo))) == "rows")
  }

  test("a state that only another order than that of the commits gives is seen") {
    val add = Update(Vector("v" -> Add(Col("v"), Const(Num(10)))), idIs(1))
    val set = Update(Vector("v" -> Const(Num(0))), idIs(1))
    val rest = base.map(_.values).tail
    val commits = Vector(add -> 0L, set -> 0L)
    assert(kind(check(commits, Vector(row(1, Num(11)) +: rest, row(1, Num(0)) +: rest))) == "agrees")
    assert(kind(check(commits, Vector(row(1, Num(11)) +: rest, row(1, Num(10)) +: rest))) == "rows")
  }

  test("the merge that traps.md begins with is seen") {
    // MERGE {1,2,3}: MATCHED AND s.id = 2 DELETE, NOT MATCHED INSERT; against DELETE id IN (1, 3).
    val merge = Merge(Rows(Vector(row(1), row(2), row(4))), onId,
      Vector(Clause(Some(Cmp(Src("id"), "=", Const(Num(2)))), None)),
      Vector(InsertClause(None, Columns.names.map(Src(_)))), Vector.empty)
    val delete = Delete(Some(In(Col("id"), Vector(Num(1), Num(4)))))
    val union = Vector(row(3, Num(3)), row(4))
    val winnerFirst = Vector(row(3, Num(3)), row(1), row(4))
    val commits = Vector(delete -> 0L, merge -> 0L)
    assert(kind(check(commits, Vector(afterOne, union))) == "rows")
    assert(kind(check(commits, Vector(afterOne, winnerFirst))) == "agrees")
  }

  test("a change feed that says more or less than the statement did is seen") {
    def feed(changes: Change*): Option[Map[Long, Vector[Change]]] = Some(Map(
      1L -> Vector(Change("delete", row(1, Num(1)))), 2L -> changes.toVector))
    val right = Change("delete", row(2, Num(2)))
    def result(f: Option[Map[Long, Vector[Change]]]): String =
      kind(check(twoDeletes, Vector(afterOne, afterTwo), feed = f))
    assert(result(feed(right)) == "agrees")
    assert(result(feed()) == "feed")
    assert(result(feed(right, Change("delete", row(1, Num(1))))) == "feed")
    // The rows fit this one, but an UPDATE reports images.
    val set = Update(Vector("v" -> Const(Num(9))), idIs(2))
    assert(kind(check(Vector(Delete(idIs(1)) -> 0L, set -> 0L),
      Vector(afterOne, Vector(row(2, Num(9)), row(3, Num(3)))),
      feed = feed(right, Change("insert", row(2, Num(9)))))) == "changes")
  }

  test("row ids that change, appear twice or are used again are seen") {
    val commits = Vector[(Statement, Long)](Delete(idIs(1)) -> 0L, Insert(Vector(row(4)), 1) -> 0L)
    val after = Vector(afterOne, afterOne :+ row(4))
    def result(ids: Vector[Long]*): String =
      kind(check(commits, after, rowIds = Some(ids.toVector)))
    assert(result(Vector(0, 1, 2), Vector(1, 2), Vector(1, 2, 3)) == "agrees")
    assert(result(Vector(0, 1, 2), Vector(2, 1), Vector(2, 1, 3)) == "row ids")
    assert(result(Vector(0, 1, 2), Vector(1, 2), Vector(1, 2, 2)) == "row ids")
    assert(result(Vector(0, 1, 2), Vector(1, 2), Vector(1, 2, 0)) == "row ids")
  }

  test("a version that nobody committed is seen") {
    assert(kind(check(Vector(Delete(idIs(1)) -> 0L), Vector(afterOne, afterTwo))) == "versions")
  }

  test("WriteSerializable lets a blind append go later, and nothing else") {
    val ws = Table(Vector(base.map(_.values)), writeSerializable = true)
    val insert = Insert(Vector(row(9, Num(7))), 1)
    val delete = Delete(Some(Cmp(Col("v"), ">=", Const(Num(3)))))
    val appended = base.map(_.values) :+ row(9, Num(7))
    val left = Vector(row(1, Num(1)), row(2, Num(2)), row(9, Num(7)))
    def result(read: Long, t: Table): String =
      kind(check(Vector(insert -> 0L, delete -> read), Vector(appended, left), t))
    assert(result(0, ws) == "agrees")
    assert(result(1, ws) == "order") // it saw the append
    assert(result(0, Table(ws.files)) == "rows") // Serializable
  }

  test("the cycle of soundness 2.4 (p) has no allowed order") {
    val ws = Table(Vector(base.map(_.values)), writeSerializable = true)
    val insert = Insert(Vector(row(102, Num(6)), row(104, Num(150))), 2)
    val saw = Delete(Some(In(Col("id"), Vector(Num(104), Num(3)))))
    val loser = Update(Vector("v" -> Add(Col("v"), Const(Num(195)))),
      Some(Cmp(Col("v"), ">=", Const(Num(2)))))
    val v1 = base.map(_.values) ++ Vector(row(102, Num(6)), row(104, Num(150)))
    val v2 = Vector(row(1, Num(1)), row(2, Num(2)), row(102, Num(6)))
    val v3 = Vector(row(1, Num(1)), row(2, Num(197)), row(102, Num(6)))
    assert(kind(check(Vector(insert -> 0L, saw -> 1L, loser -> 0L), Vector(v1, v2, v3), ws)) ==
      "order")
  }

  test("only a subquery that we did not merge is stock's own hole") {
    val sum = Update(Vector("v" -> Scalar(Aggregate(Self, "sum", "v", None))), idIs(3))
    val stale = Vector(row(2, Num(2)), row(3, Num(6)))
    def result(passes: Vector[Pass]): Either[Disagreement, Agreement] =
      new Checker(Table(Vector(base.map(_.values))), Vector(base), _ => 0L,
        Vector(
          Done(Delete(idIs(1)), Vector(0L), Committed(Vector(1L)), Vector.empty),
          Done(sum, Vector(0L), Committed(Vector(2L)), passes)),
        Observed(0, Vector(base.map(_.values), afterOne, stale).map(_.map(StoredRow(_, None))),
          None, Vector(false, false, false))).check()
    assert(result(Vector.empty).map(_.stockHoles) == Right(1))
    assert(kind(result(Vector(Pass(1, rebased = true, 0, 0, 1, Nil)))) == "rows")
  }

  // ---- the log -------------------------------------------------------------------------------

  private def withLog(commits: Seq[String]*)(f: TableLog => Unit): Unit = {
    val dir = Files.createTempDirectory("rlc-log-")
    try {
      val log = Files.createDirectory(dir.resolve("_delta_log"))
      commits.zipWithIndex.foreach { case (lines, v) =>
        Files.write(log.resolve(f"$v%020d.json"), lines.asJava): Path
      }
      f(new TableLog(dir))
    } finally TableFiles.delete(dir)
  }
  private val meta = """{"metaData":{"configuration":{}}}"""
  private def entry(kind: String, path: String, dv: String): String = {
    val vector = if (dv.isEmpty) "" else
      s""","deletionVector":{"storageType":"u","pathOrInlineDv":"$dv","offset":1}"""
    s"""{"$kind":{"path":"$path"$vector}}"""
  }

  test("a tombstone that names a vector which is not live any more breaks the log") {
    val start = Seq(meta, entry("add", "f", ""))
    val first = Seq(entry("remove", "f", ""), entry("add", "f", "a"))
    withLog(start, first, Seq(entry("remove", "f", "a"), entry("add", "f", "ab"))) { log =>
      assert(log.replay().last.live.keySet == Set(TableLog.Key("f", Some("uab@1"))))
    }
    withLog(start, first, Seq(entry("remove", "f", ""), entry("add", "f", "b"))) { log =>
      intercept[BrokenLog](log.replay())
    }
    withLog(start, first, Seq(entry("add", "f", "b"))) { log =>
      intercept[BrokenLog](log.replay())
    }
    withLog(start, Seq(entry("remove", "f", ""), entry("add", "f", ""))) { log =>
      intercept[BrokenLog](log.replay())
    }
  }

  // ---- cases ---------------------------------------------------------------------------------

  test("a seed gives the same case again, and other seeds give others") {
    val first = (1L to 200L).map(Campaign.draw)
    assert(first == (1L to 200L).map(Campaign.draw))
    // The known shapes have few variants.
    assert(first.distinct.size > 190)
  }

  test("a failing case is reduced to what makes it fail") {
    val big = (1L to 50L).map(Campaign.draw).find { c =>
      c.statements.size > 3 && c.statements.exists(_.isInstanceOf[Update]) &&
        c.statements.exists(_.isInstanceOf[Delete])
    }.get
    def fails(c: Case): Boolean = c.statements.exists(_.isInstanceOf[Update]) &&
      c.statements.exists(_.isInstanceOf[Delete])
    val small = new Shrinker(fails, 10000).shrink(big)
    assert(small.statements.size == 2 && small.schedule.isEmpty)
    assert(small.table.files.flatten.size == 1 && small.table.setup.isEmpty)
    assert(CaseText(small).startsWith("Case(Table(Vector(Vector(Vector(Num("))
  }
}
