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

import scala.util.Random

/**
 * Draws cases: small tables with few values, so that statements meet at the same files and rows,
 * and at rows that another one has just moved into or out of a condition.
 *
 * @param directed how often, out of 1, a case takes the shape of a known counterexample
 */
final class Generator(seed: Long, directed: Double) {
  private val random = new Random(seed * 0x9E3779B97F4A7C15L + 12345)
  import random.{nextDouble, nextInt}

  private def chance(p: Double): Boolean = nextDouble() < p
  private def pick[T](xs: Seq[T]): T = xs(nextInt(xs.size))
  private def weighted[T](xs: (Int, () => T)*): T = {
    var n = nextInt(xs.map(_._1).sum)
    xs.find { case (w, _) => n -= w; n < 0 }.get._2()
  }
  private def some[T](p: Double)(f: => T): Option[T] = if (chance(p)) Some(f) else None

  /** The ids that statements mostly name. */
  private var ids: Vector[Long] = (0L to 10L).toVector

  /** The case of this seed. */
  def next(): Case =
    if (chance(directed)) new Shapes(random).next()
    else {
      val t = table()
      ids = t.files.flatten.map(Generator.id)
      val count = weighted(6 -> (() => 2), 5 -> (() => 3), 3 -> (() => 4), 1 -> (() => 5),
        1 -> (() => 6))
      // Statements that only take rows away can all be merged; a new file of one unpartitioned
      // winner ends that. So half of the groups have mostly the former.
      val shrinking = if (chance(0.5)) 0.75 else 0.2
      val statements = Vector.fill(count)(
        if (chance(shrinking)) shrink(t) else statement(t))
      Case(t, statements, schedule(count), materialize = chance(0.1))
    }

  /** Mostly: all fix their snapshots early, then commit in some order. */
  private def schedule(count: Int): Vector[Int] = {
    val stops = (0 until count).flatMap(i => Seq.fill(3 + nextInt(3))(i))
    val mixed = random.shuffle(stops).toVector
    if (chance(0.6)) random.shuffle((0 until count).toVector) ++
      random.shuffle((0 until count).toVector) ++ mixed
    else mixed
  }

  // ---- tables ------------------------------------------------------------------------------

  /** Out of few, since a table is built once and then copied. */
  private def table(): Table = {
    val kind = seed / Generator.seedsPerTables * Generator.tables + nextInt(Generator.tables)
    new Generator(kind, 0).drawTable()
  }

  private def number(): Value = if (chance(0.15)) Null else Num(nextInt(12).toLong)
  private def letter(): Value = if (chance(0.15)) Null else Str(pick(Seq("a", "b", "c")))
  private def record(id: Long): Record =
    Vector(Num(id), Num(nextInt(2).toLong), number(), letter())

  private def drawTable(): Table = {
    val fileCount = weighted(5 -> (() => 1), 3 -> (() => 2), 1 -> (() => 3))
    val rows = (0 until (fileCount * (3 + nextInt(5)))).map(i => record(i.toLong)).toVector
    val spread = chance(0.5) // ids of one file together, so that statistics prune, or mixed
    val files = (if (spread) rows.groupBy(r => Generator.id(r) % fileCount).values.toVector
      else rows.grouped((rows.size + fileCount - 1) / fileCount).toVector)
      .map(_.sortBy(Generator.id))
    val doubled = if (chance(0.15)) files.updated(0, files(0) :+ files(0).head) else files
    val setup = Vector.fill(weighted(4 -> (() => 0), 3 -> (() => 1), 3 -> (() => 2)))(
      weighted[Statement](
        5 -> (() => Delete(Some(Cmp(Col("id"), "=", Const(Num(nextInt(rows.size).toLong)))))),
        1 -> (() => Update(Vector("v" -> Const(number())), Some(condition(1)))),
        1 -> (() => Delete(Some(condition(1))))))
    val ws = chance(0.15)
    Table(doubled, chance(0.4), setup, cdf = chance(0.5), rowTracking = !ws && chance(0.35), ws,
      commitTimestamps = chance(0.15))
  }

  // ---- conditions and expressions ----------------------------------------------------------

  private def someId(): Long = if (chance(0.9)) pick(ids) else nextInt(11).toLong

  /** One or a few rows, in a partitioned table often of one partition that the condition names. */
  private def few(t: Table): Pred = {
    val p = if (chance(0.6)) Cmp(Col("id"), "=", Const(Num(someId())))
      else In(Col("id"), Vector.fill(2 + nextInt(2))(Num(someId()): Value).distinct)
    local(t, if (chance(0.8)) p else And(p, condition(0)))
  }

  private def local(t: Table, p: Pred): Pred =
    if (t.partitioned && chance(0.6)) {
      And(Cmp(Col("p"), "=", Const(Num(nextInt(2).toLong))), p)
    } else p

  private def condition(depth: Int): Pred = weighted[Pred](
    8 -> (() => Cmp(Col("id"), "=", Const(Num(someId())))),
    6 -> (() => In(Col("id"), Vector.fill(2 + nextInt(3))(Num(someId()): Value).distinct)),
    4 -> (() => Cmp(Col("v"), pick(Seq("=", "<", ">", "<=", ">=", "<>")),
      Const(Num(nextInt(12).toLong)))),
    2 -> (() => { val a = someId(); Between(Col("id"), a, a + nextInt(4)) }),
    2 -> (() => Cmp(Col("p"), "=", Const(Num(nextInt(2).toLong)))),
    2 -> (() => Cmp(Col("s"), pick(Seq("=", "<>")), Const(Str(pick(Seq("a", "b", "c")))))),
    1 -> (() => IsNull(Col(pick(Seq("v", "s"))))),
    1 -> (() => Cmp(Mod(Col("v"), 2), "=", Const(Num(nextInt(2).toLong)))),
    1 -> (() => Not(condition(0))),
    (if (depth > 0) 4 else 0) -> (() => And(condition(depth - 1), condition(depth - 1))),
    (if (depth > 0) 2 else 0) -> (() => Or(condition(depth - 1), condition(depth - 1))))

  private def aggregate(from: From): Aggregate =
    Aggregate(from, pick(Seq("sum", "count", "max", "min")), pick(Seq("v", "id")),
      some(0.4)(condition(0)))

  private def expression(column: String, merge: Boolean, subqueries: Boolean): Expr = column match {
    case "s" => weighted[Expr](
      3 -> (() => Const(letter())),
      (if (merge) 2 else 0) -> (() => Src("s")))
    case "p" => Const(Num(nextInt(2).toLong))
    case c => weighted[Expr](
      3 -> (() => Const(if (c == "id") Num(someId()) else number())),
      3 -> (() => Add(Col(c), Const(Num(1L + nextInt(5))))),
      1 -> (() => Coalesce(Col("v"), Const(Num(7)))),
      1 -> (() => If(condition(0), Col(c), Const(Num(nextInt(12).toLong)))),
      (if (merge) 4 else 0) -> (() => Src("v")),
      (if (subqueries) 4 else 0) -> (() => Scalar(aggregate(if (chance(0.7)) Self else Other))))
  }

  private def assignments(merge: Boolean, subqueries: Boolean): Vector[(String, Expr)] = {
    val columns = weighted(
      6 -> (() => Vector("v")), 3 -> (() => Vector("s")), 2 -> (() => Vector("v", "s")),
      1 -> (() => Vector("p")), 1 -> (() => Vector("id")))
    columns.map(c => c -> expression(c, merge, subqueries))
  }

  // ---- statements --------------------------------------------------------------------------

  /** A statement that adds no file. */
  private def shrink(t: Table): Statement =
    if (chance(0.75)) Delete(Some(few(t))) else {
      val rows = random.shuffle(ids.distinct).take(1 + nextInt(3)).map(record(_))
      val bySource = some(0.2)(Clause(Some(few(t)), None)).toVector
      Merge(Rows(rows), local(t, Cmp(Col("id"), "=", Src("id"))),
        Vector(Clause(some(0.3)(condition(0)), None)), Vector.empty, bySource)
    }

  private def statement(t: Table): Statement = weighted[Statement](
    6 -> (() => Delete(some(0.95)(local(t, condition(1))))),
    9 -> (() => Update(assignments(merge = false, !t.writeSerializable && chance(0.3)),
      some(0.97)(if (chance(0.6)) few(t) else local(t, condition(1))))),
    9 -> (() => merge(t)),
    2 -> (() => insert()),
    1 -> (() => InsertSelect(Some(condition(0)), 20L + nextInt(3))),
    1 -> (() => Optimize),
    1 -> (() => Purge),
    1 -> (() => Restore(1 + nextInt(2))))

  private def insert(): Insert = {
    val rows = Vector.fill(1 + nextInt(2))(record(someId() + (if (chance(0.5)) 11 else 0)))
    Insert(rows, if (rows.size > 1 && chance(0.5)) 2 else 1)
  }

  private def source(): Source = weighted[Source](
    8 -> (() => {
      val fresh = Vector.fill(nextInt(2))(11L + nextInt(3))
      Rows((random.shuffle(ids.distinct).take(1 + nextInt(3)) ++ fresh).distinct.map(record(_)))
    }),
    2 -> (() => FromTable(Other, None, 0, nextInt(3).toLong)),
    2 -> (() => FromTable(Self, some(0.7)(condition(0)), nextInt(3).toLong, nextInt(3).toLong)),
    1 -> (() => Total(someId(), aggregate(Self))))

  private def merge(t: Table): Merge = {
    val subqueries = !t.writeSerializable && chance(0.2)
    val onId = Cmp(Col("id"), "=", Src("id"))
    val on = weighted[Pred](
      8 -> (() => local(t, onId)),
      1 -> (() => And(onId, Cmp(Col("p"), "=", Src("p")))),
      1 -> (() => And(onId, condition(0))))

    /** Conditions on all clauses but, some of the time, the last. */
    def conditions(count: Int, both: Boolean): Vector[Option[Pred]] =
      Vector.tabulate(count)(i => if (i == count - 1 && chance(0.5)) None
        else Some(if (both && chance(0.5)) sourceCondition() else condition(0)))
    def sourceCondition(): Pred = weighted[Pred](
      2 -> (() => Cmp(Src("v"), pick(Seq("<", ">=")), Const(Num(nextInt(12).toLong)))),
      2 -> (() => Cmp(Src("id"), pick(Seq("=", "<", ">")), Const(Num(someId())))),
      1 -> (() => Cmp(Src("v"), "<", Col("v"))))
    def change(merge: Boolean): Option[Vector[(String, Expr)]] =
      some(0.65)(assignments(merge, subqueries))

    val matched = conditions(weighted(2 -> (() => 0), 6 -> (() => 1), 2 -> (() => 2)), both = true)
      .map(Clause(_, change(merge = true)))
    val notMatched = if (chance(0.5)) {
      Vector(InsertClause(some(0.4)(Cmp(Src("v"), ">=", Const(Num(nextInt(8).toLong)))),
        Vector(Src("id"), Src("p"),
          if (subqueries && chance(0.5)) Scalar(aggregate(Self)) else Src("v"), Src("s"))))
    } else Vector.empty
    val bySource = if (chance(0.25) || matched.isEmpty && notMatched.isEmpty) {
      // An unconditional one would reach every row.
      conditions(1, both = false).map(c => Clause(c.orElse(Some(condition(0))), change(false)))
    } else Vector.empty
    Merge(source(), on, matched, notMatched, bySource)
  }
}

object Generator {
  /** How many different random tables a thousand seeds have. */
  val tables: Int = 30
  val seedsPerTables: Int = 1000

  private[histories] def id(r: Record): Long = r(0) match {
    case Num(n) => n
    case other => throw new IllegalStateException(s"id $other")
  }
}
