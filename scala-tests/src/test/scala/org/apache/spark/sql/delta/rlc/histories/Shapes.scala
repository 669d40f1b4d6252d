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
 * The known counterexamples to a rule that only compares deletion vectors, each with random rows
 * around it. Random cases reach most of them, but some only once in thousands. The tables are few,
 * since building one takes longer than a race on a copy of it.
 */
private[histories] final class Shapes(random: Random) {
  import random.{nextBoolean, nextInt}

  private val loser = 0
  private val n = 6

  def next(): Case = nextInt(10) match {
    case 0 => conditionalUpsert()
    case 1 => selfReadingSource()
    case 2 => subqueryInSet()
    case 3 => restoreShrinks()
    case 4 => rowTrackingEnabled()
    case 5 => appendThenDelete()
    case 6 => brokenChain()
    case 7 => imageIntoCondition()
    case 8 => usualUpsert()
    case 9 => restoredAfterMerge()
  }

  private def row(id: Long, v: Long, p: Long = 0): Record =
    Vector(Num(id), Num(p), Num(v), Str("a"))
  private def rows(n: Int): Vector[Record] = Vector.tabulate(n)(i => row(i.toLong, i * 10L))
  private def idIs(id: Long): Option[Pred] = Some(Cmp(Col("id"), "=", Const(Num(id))))
  private def idIn(ids: Long*): Option[Pred] = Some(In(Col("id"), ids.map(Num(_)).toVector))
  private val onId: Pred = Cmp(Col("id"), "=", Src("id"))
  private def two(n: Int): (Long, Long) = {
    val a = nextInt(n)
    (a.toLong, ((a + 1 + nextInt(n - 1)) % n).toLong)
  }
  private val fromSource: Vector[Expr] = Columns.names.map(Src(_))

  /** The loser, number 0, fixes its snapshot; all winners commit; the loser commits. */
  private def race(table: Table, lose: Statement, winners: Statement*): Case = {
    val wins = winners.indices.map(_ + 1)
    val schedule =
      if (winners.size > 1 && nextInt(3) == 0) {
        // The last winner comes while the loser is between a pass and its next attempt.
        Seq(loser, loser) ++ wins.init.flatMap(w => Seq.fill(4)(w)) ++ Seq(loser) ++
          Seq.fill(4)(wins.last)
      } else Seq(loser) ++ wins.flatMap(w => Seq.fill(4)(w))
    Case(table, lose +: winners.toVector, schedule.toVector, materialize = nextInt(4) == 0)
  }

  /** A matched row that the condition left alone is deleted: the MERGE should now insert it. */
  private def conditionalUpsert(): Case = {
    val (kept, taken) = two(n)
    val source = Rows(Vector(row(kept, 1), row(taken, 9), row(100, 9)))
    race(
      Table(Vector(rows(n)), cdf = nextBoolean()),
      Merge(source, onId,
        Vector(Clause(Some(Cmp(Src("v"), ">", Const(Num(5)))),
          if (nextBoolean()) None else Some(Vector("v" -> Src("v"))))),
        Vector(InsertClause(None, fromSource)), Vector.empty),
      Delete(idIn(kept, 50)))
  }

  private def selfReadingSource(): Case = {
    val (target, read) = two(n)
    race(
      Table(Vector(rows(n)), cdf = nextBoolean()),
      Merge(Total(target, Aggregate(Self, "sum", "v", None)), onId,
        Vector(Clause(None, Some(Vector("v" -> Src("v"))))), Vector.empty, Vector.empty),
      Delete(idIs(read)))
  }

  private def subqueryInSet(): Case = {
    val (target, read) = two(n)
    val sum = Scalar(Aggregate(Self, "sum", "id", None))
    val lose = if (nextBoolean()) Update(Vector("v" -> sum), idIs(target))
      else Merge(Rows(Vector(row(target, 1))), onId, Vector(Clause(None, Some(Vector("v" -> sum)))),
        Vector.empty, Vector.empty)
    race(Table(Vector(rows(n))), lose, Delete(idIs(read)))
  }

  /** RESTORE brings rows back into a file that the loser deletes in. */
  private def restoreShrinks(): Case = {
    val table = Table(Vector(rows(n)), setup = Vector(Delete(idIs(3)), Delete(idIs(1))),
      cdf = nextBoolean())
    val id = Seq(0L, 2L, 4L, 5L)(nextInt(4))
    val lose = if (nextBoolean()) Delete(idIs(id))
      else Update(Vector("v" -> Const(Num(7))), idIs(id))
    race(table, lose, Restore(1 + nextInt(2)))
  }

  /** Row tracking is enabled between the loser's snapshot and its commit. */
  private def rowTrackingEnabled(): Case = {
    val ids = random.shuffle((0 until n).map(_.toLong).toList)
    val winners = if (nextBoolean()) Seq(EnableRowTracking, Delete(idIs(ids(0))))
      else Seq(Delete(idIs(ids(0))), EnableRowTracking, Delete(idIs(ids(3))))
    race(Table(Vector(rows(n))), Delete(idIs(ids(1))), winners: _*)
  }

  /** WriteSerializable: an append that the loser may come before, a DELETE that saw it. */
  private def appendThenDelete(): Case = {
    val big = row(90, 200)
    val between = Some(Between(Col("v"), 5, 10))
    val lose = if (nextBoolean()) Update(Vector("v" -> Add(Col("v"), Const(Num(15)))), between)
      else Delete(between)
    race(
      Table(Vector(rows(n) :+ big), writeSerializable = true),
      lose,
      Insert(Vector(row(102, 6), row(104, 150)), 2),
      Delete(Some(Cmp(Col("v"), ">", Const(Num(100))))))
  }

  /** A file that one winner deletes in is moved, purged or brought back by the next. */
  private def brokenChain(): Case = {
    val ids = 0L +: random.shuffle((1 until n).map(_.toLong).toVector)
    val files = if (nextBoolean()) Vector(rows(n)) else rows(n).grouped(n / 2).toVector
    val setup = if (nextBoolean()) Vector(Delete(idIs(0))) else Vector.empty
    val first = if (nextBoolean()) Delete(idIs(ids(1)))
      else Update(Vector("s" -> Const(Str("z"))), idIs(ids(1)))
    val last = nextInt(4) match {
      case 0 => Seq(Purge)
      case 1 => Seq(Optimize)
      case 2 => Seq(Delete(Some(Cmp(Col("id"), "<>", Const(Num(ids(2)))))), Restore(0))
      case 3 => Seq(Purge, Restore(0))
    }
    race(Table(files, setup = setup), Delete(idIs(ids(2))), first +: last: _*)
  }

  private def imageIntoCondition(): Case = {
    val moved = nextInt(2).toLong
    race(
      Table(Vector(rows(n)), cdf = nextBoolean(), partitioned = nextBoolean()),
      Delete(Some(Cmp(Col("v"), ">", Const(Num(10))))),
      Update(Vector("v" -> Const(Num(15))), idIs(moved)))
  }

  /** Must merge: every matched row is in the loser's deletion vector. */
  private def usualUpsert(): Case = {
    val (matched, other) = two(n)
    race(
      Table(Vector(rows(n)), cdf = nextBoolean(), rowTracking = nextBoolean()),
      Merge(Rows(Vector(row(matched, 1), row(100, 2))), onId,
        Vector(Clause(None, Some(Vector("v" -> Src("v"))))),
        Vector(InsertClause(None, fromSource)), Vector.empty),
      Delete(idIs(other)))
  }

  /**
   * After the loser merged with one winner, a RESTORE takes that winner's rows back. With three rows
   * the two had emptied the file.
   */
  private def restoredAfterMerge(): Case = {
    val size = Seq(3, 6)(nextInt(2))
    val table = Table(Vector(rows(size)), setup = Vector(Delete(idIs(2))), cdf = nextBoolean())
    val lose = if (nextBoolean()) Delete(idIs(0)) else Update(Vector("v" -> Const(Num(7))), idIs(0))
    val schedule = Vector(0, 0) ++ Vector.fill(3)(1) ++ Vector(0) ++ Vector.fill(4)(2)
    Case(table, Vector(lose, Delete(idIs(1)), Restore(0)), schedule)
  }
}
