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

/**
 * A value of the model. Arithmetic and comparisons are written out here, so that nothing of Spark's
 * evaluation can hide a mistake in Spark's DML.
 */
sealed trait Value {
  /** As SQL, with a type even where it is null. */
  def sql(columnType: String): String = this match {
    case Null => s"CAST(NULL AS $columnType)"
    case Num(n) => s"${n}L"
    case Str(s) => s"'$s'"
  }
}
case object Null extends Value
final case class Num(n: Long) extends Value
final case class Str(s: String) extends Value

/** The one schema of all tables: an identity, a partition, a number and a string. */
object Columns {
  val names: Vector[String] = Vector("id", "p", "v", "s")
  val types: Vector[String] = Vector("BIGINT", "BIGINT", "BIGINT", "STRING")
  def index(name: String): Int = names.indexOf(name)
}

/** What the names in a statement stand for when it is written as SQL. */
final case class Names(self: String, other: String, restoreTo: Int => Long)

/** The rows that a query inside a statement may read. */
final case class Tables(self: Seq[Record], other: Seq[Record])

/** One target row and one source row, whichever there are, and the tables that subqueries read. */
final case class Scope(target: Option[Record], source: Option[Record], tables: Tables)

sealed trait Expr {
  def sql(n: Names): String = this match {
    case Col(c) => s"t.$c"
    case Src(c) => s"s.$c"
    case Const(Null) => "NULL"
    case Const(v) => v.sql("")
    case Add(l, r) => s"(${l.sql(n)} + ${r.sql(n)})"
    case Mod(l, k) => s"(${l.sql(n)} % ${k}L)"
    case Coalesce(l, r) => s"coalesce(${l.sql(n)}, ${r.sql(n)})"
    case If(c, a, b) => s"(CASE WHEN ${c.sql(n)} THEN ${a.sql(n)} ELSE ${b.sql(n)} END)"
    case Scalar(q) => s"(${q.sql(n)})"
  }

  def eval(e: Scope): Value = this match {
    case Col(c) => e.target.get(Columns.index(c))
    case Src(c) => e.source.get(Columns.index(c))
    case Const(v) => v
    case Add(l, r) => (l.eval(e), r.eval(e)) match {
      case (Num(a), Num(b)) => Num(a + b)
      case _ => Null
    }
    case Mod(l, k) => l.eval(e) match {
      case Num(a) => Num(a % k)
      case _ => Null
    }
    case Coalesce(l, r) => l.eval(e) match {
      case Null => r.eval(e)
      case v => v
    }
    case If(c, a, b) => if (c.eval(e).contains(true)) a.eval(e) else b.eval(e)
    case Scalar(q) => q.eval(e.tables)
  }

  /** Whether a subquery in here reads the target. */
  def readsSelf: Boolean = this match {
    case Scalar(q) => q.from == Self
    case Add(l, r) => l.readsSelf || r.readsSelf
    case Mod(l, _) => l.readsSelf
    case Coalesce(l, r) => l.readsSelf || r.readsSelf
    case If(c, a, b) => c.readsSelf || a.readsSelf || b.readsSelf
    case _ => false
  }
}
/** A column of the target. */
final case class Col(name: String) extends Expr
/** A column of a MERGE source. */
final case class Src(name: String) extends Expr
final case class Const(value: Value) extends Expr
final case class Add(left: Expr, right: Expr) extends Expr
final case class Mod(left: Expr, by: Long) extends Expr
final case class Coalesce(left: Expr, right: Expr) extends Expr
final case class If(condition: Pred, yes: Expr, no: Expr) extends Expr
final case class Scalar(query: Aggregate) extends Expr

/** Which table a query reads: the statement's own target, or one that never changes. */
sealed trait From {
  def sql(n: Names): String = if (this == Self) n.self else n.other
  def rows(t: Tables): Seq[Record] = if (this == Self) t.self else t.other
}
case object Self extends From
case object Other extends From

/** `SELECT fn(column) FROM from WHERE where`, a single value. `fn`: sum, count, max or min. */
final case class Aggregate(from: From, fn: String, column: String, where: Option[Pred]) {

  def sql(n: Names): String = {
    val argument = if (fn == "count") "*" else s"t.$column"
    s"SELECT $fn($argument) FROM ${from.sql(n)} t${where.fold("")(w => s" WHERE ${w.sql(n)}")}"
  }

  def eval(tables: Tables): Value = {
    val rows = from.rows(tables).filter(r =>
      where.forall(_.eval(Scope(Some(r), None, tables)).contains(true)))
    val numbers = rows.map(_(Columns.index(column))).collect { case Num(x) => x }
    fn match {
      case "count" => Num(rows.size.toLong)
      case _ if numbers.isEmpty => Null
      case "sum" => Num(numbers.sum)
      case "max" => Num(numbers.max)
      case "min" => Num(numbers.min)
      case other => throw new IllegalArgumentException(other)
    }
  }
}

/** A condition; it evaluates to true, false or, as `None`, unknown. */
sealed trait Pred {
  def sql(n: Names): String = this match {
    case Cmp(l, op, r) => s"${l.sql(n)} $op ${r.sql(n)}"
    case In(e, vs) => s"${e.sql(n)} IN (${vs.map(_.sql("BIGINT")).mkString(", ")})"
    case Between(e, a, b) => s"${e.sql(n)} BETWEEN ${a}L AND ${b}L"
    case IsNull(e) => s"${e.sql(n)} IS NULL"
    case Not(p) => s"NOT (${p.sql(n)})"
    case And(l, r) => s"(${l.sql(n)} AND ${r.sql(n)})"
    case Or(l, r) => s"(${l.sql(n)} OR ${r.sql(n)})"
  }

  def eval(e: Scope): Option[Boolean] = this match {
    case Cmp(l, op, r) => Pred.compare(l.eval(e), op, r.eval(e))
    case In(x, vs) =>
      val all = vs.map(v => Pred.compare(x.eval(e), "=", v))
      if (all.contains(Some(true))) Some(true)
      else if (all.contains(None)) None
      else Some(false)
    case Between(x, a, b) =>
      And(Cmp(x, ">=", Const(Num(a))), Cmp(x, "<=", Const(Num(b)))).eval(e)
    case IsNull(x) => Some(x.eval(e) == Null)
    case Not(p) => p.eval(e).map(!_)
    case And(l, r) => (l.eval(e), r.eval(e)) match {
      case (Some(false), _) | (_, Some(false)) => Some(false)
      case (Some(true), Some(true)) => Some(true)
      case _ => None
    }
    case Or(l, r) => (l.eval(e), r.eval(e)) match {
      case (Some(true), _) | (_, Some(true)) => Some(true)
      case (Some(false), Some(false)) => Some(false)
      case _ => None
    }
  }

  def readsSelf: Boolean = this match {
    case Cmp(l, _, r) => l.readsSelf || r.readsSelf
    case In(e, _) => e.readsSelf
    case Between(e, _, _) => e.readsSelf
    case IsNull(e) => e.readsSelf
    case Not(p) => p.readsSelf
    case And(l, r) => l.readsSelf || r.readsSelf
    case Or(l, r) => l.readsSelf || r.readsSelf
  }
}
/** `op`: =, <>, <, <=, >, >= or the null-safe <=>. */
final case class Cmp(left: Expr, op: String, right: Expr) extends Pred
final case class In(expr: Expr, values: Vector[Value]) extends Pred
final case class Between(expr: Expr, from: Long, to: Long) extends Pred
final case class IsNull(expr: Expr) extends Pred
final case class Not(pred: Pred) extends Pred
final case class And(left: Pred, right: Pred) extends Pred
final case class Or(left: Pred, right: Pred) extends Pred

object Pred {
  private[histories] def compare(l: Value, op: String, r: Value): Option[Boolean] = {
    val order: Option[Int] = (l, r) match {
      case (Num(a), Num(b)) => Some(a.compare(b))
      case (Str(a), Str(b)) => Some(a.compareTo(b))
      case _ => None
    }
    op match {
      case "<=>" => Some(l == r)
      case "=" => order.map(_ == 0)
      case "<>" => order.map(_ != 0)
      case "<" => order.map(_ < 0)
      case "<=" => order.map(_ <= 0)
      case ">" => order.map(_ > 0)
      case ">=" => order.map(_ >= 0)
      case other => throw new IllegalArgumentException(other)
    }
  }
}
