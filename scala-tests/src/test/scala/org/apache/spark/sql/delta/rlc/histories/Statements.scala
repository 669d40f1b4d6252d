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

/** A row of the model, with an identity that outlives its values. */
final case class ModelRow(rid: Long, values: Record)

/** One row of a version's change data feed; `kind` is Delta's `_change_type`. */
final case class Change(kind: String, values: Record)

/** What a statement does to a state: the rows after it, and its change rows. */
final case class Effect(rows: Vector[ModelRow], changes: Vector[Change])

/**
 * What a statement needs besides the rows it works on.
 *
 * @param reads what its subqueries and a self-reading source see
 * @param restoreTo the rows that `Restore(back)` brings back
 * @param fresh a new row identity
 */
final case class Env(reads: Tables, restoreTo: Int => Vector[ModelRow], fresh: () => Long)

/** Something the model cannot run, such as a MERGE that matches a target row twice. */
final class ModelException(message: String) extends RuntimeException(message)

/** A statement as SQL and, independently, as a function on rows. */
sealed trait Statement {
  def sql(n: Names): String
  def run(rows: Vector[ModelRow], env: Env): Effect

  /** Whether a subquery reads the target where stock Delta does not track it (soundness 2.4 b2). */
  def untrackedSelfRead: Boolean = false

  /** Whether it changes rows, so that it makes at most one version. */
  def isDml: Boolean = true

  /** Whether it may stop where another statement can commit; those that may not run in one go. */
  def canPause: Boolean = true
}

sealed trait RowStatement extends Statement {
  protected def holds(p: Option[Pred], row: Record, env: Env): Boolean =
    p.forall(_.eval(Scope(Some(row), None, env.reads)).contains(true))
}

final case class Delete(where: Option[Pred]) extends RowStatement {
  override def sql(n: Names): String =
    s"DELETE FROM ${n.self} AS t${where.fold("")(w => s" WHERE ${w.sql(n)}")}"

  override def run(rows: Vector[ModelRow], env: Env): Effect = {
    val (gone, kept) = rows.partition(r => holds(where, r.values, env))
    Effect(kept, gone.map(r => Change("delete", r.values)))
  }
}

final case class Update(set: Vector[(String, Expr)], where: Option[Pred]) extends RowStatement {
  override def sql(n: Names): String = {
    val sets = set.map { case (c, e) => s"t.$c = ${e.sql(n)}" }.mkString(", ")
    s"UPDATE ${n.self} AS t SET $sets${where.fold("")(w => s" WHERE ${w.sql(n)}")}"
  }

  override def run(rows: Vector[ModelRow], env: Env): Effect = {
    val changes = Vector.newBuilder[Change]
    val after = rows.map { r =>
      if (!holds(where, r.values, env)) r else {
        val image = Assign(r.values, set, Scope(Some(r.values), None, env.reads))
        changes += Change("update_preimage", r.values) += Change("update_postimage", image)
        r.copy(values = image)
      }
    }
    Effect(after, changes.result())
  }

  override def untrackedSelfRead: Boolean = set.exists(_._2.readsSelf)
}

private[histories] object Assign {
  def apply(old: Record, set: Vector[(String, Expr)], scope: Scope): Record =
    set.foldLeft(old) { case (r, (c, e)) => r.updated(Columns.index(c), e.eval(scope)) }
}

/** Where the rows of a MERGE come from. */
sealed trait Source {
  def sql(n: Names): String = this match {
    case Rows(rows) =>
      val lines = rows.map(r => r.zip(Columns.types).map { case (v, t) => v.sql(t) }
        .mkString("(", ", ", ")"))
      s"SELECT * FROM VALUES ${lines.mkString(", ")} AS x(${Columns.names.mkString(", ")})"
    case FromTable(from, where, shift, plus) =>
      s"SELECT t.id + ${shift}L AS id, max(t.p) AS p, max(t.v) + ${plus}L AS v, max(t.s) AS s " +
        s"FROM ${from.sql(n)} t${where.fold("")(w => s" WHERE ${w.sql(n)}")} GROUP BY t.id"
    case Total(id, q) =>
      s"SELECT ${id}L AS id, 0L AS p, x.v AS v, 'g' AS s FROM (${q.sql(n)
        .replaceFirst(" FROM ", " AS v FROM ")}) x"
  }

  def rows(tables: Tables): Vector[Record] = this match {
    case Rows(rows) => rows
    case FromTable(from, where, shift, plus) =>
      val kept = from.rows(tables).filter(r =>
        where.forall(_.eval(Scope(Some(r), None, tables)).contains(true)))
      def greatest(rs: Seq[Record], c: String): Value = {
        val vs = rs.map(_(Columns.index(c))).filter(_ != Null)
        vs.reduceOption((a, b) => if (Pred.compare(a, ">=", b).contains(true)) a else b)
          .getOrElse(Null)
      }
      kept.groupBy(_(0)).toVector.map { case (id, rs) =>
        Vector(
          id match { case Num(x) => Num(x + shift); case other => other },
          greatest(rs, "p"),
          greatest(rs, "v") match { case Num(x) => Num(x + plus); case other => other },
          greatest(rs, "s"))
      }
    case Total(id, q) => Vector(Vector(Num(id), Num(0), q.eval(tables), Str("g")))
  }

  def readsSelf: Boolean = this match {
    case Rows(_) => false
    case FromTable(from, _, _, _) => from == Self
    case Total(_, q) => q.from == Self
  }
}
final case class Rows(rows: Vector[Record]) extends Source
/** One row for each id of a table: the id shifted, the greatest values, `v` with `plus` added. */
final case class FromTable(from: From, where: Option[Pred], shift: Long, plus: Long) extends Source
/** One row with a fixed id and an aggregate as `v`. */
final case class Total(id: Long, query: Aggregate) extends Source

/** What a WHEN clause does: an UPDATE with these columns, or a DELETE when there are none. */
final case class Clause(when: Option[Pred], set: Option[Vector[(String, Expr)]]) {
  def sql(head: String, n: Names): String = {
    val cond = when.fold("")(w => s" AND ${w.sql(n)}")
    val action = set.fold("DELETE")(s =>
      s.map { case (c, e) => s"t.$c = ${e.sql(n)}" }.mkString("UPDATE SET ", ", ", ""))
    s"$head$cond THEN $action"
  }
}

/** A WHEN NOT MATCHED clause, with an expression for each column. */
final case class InsertClause(when: Option[Pred], values: Vector[Expr]) {
  def sql(n: Names): String = {
    val cond = when.fold("")(w => s" AND ${w.sql(n)}")
    s"WHEN NOT MATCHED$cond THEN INSERT (${Columns.names.mkString(", ")}) VALUES " +
      values.map(_.sql(n)).mkString("(", ", ", ")")
  }
}

final case class Merge(
    source: Source,
    on: Pred,
    matched: Vector[Clause],
    notMatched: Vector[InsertClause],
    notMatchedBySource: Vector[Clause]) extends Statement {

  override def sql(n: Names): String = {
    val clauses = matched.map(_.sql("WHEN MATCHED", n)) ++ notMatched.map(_.sql(n)) ++
      notMatchedBySource.map(_.sql("WHEN NOT MATCHED BY SOURCE", n))
    s"MERGE INTO ${n.self} AS t USING (${source.sql(n)}) AS s ON ${on.sql(n)} " +
      clauses.mkString(" ")
  }

  override def run(rows: Vector[ModelRow], env: Env): Effect = {
    val src = source.rows(env.reads)
    val used = Array.fill(src.size)(false)
    val changes = Vector.newBuilder[Change]

    def apply(r: ModelRow, clauses: Vector[Clause], scope: Scope): Option[ModelRow] =
      clauses.find(_.when.forall(_.eval(scope).contains(true))) match {
        case None => Some(r)
        case Some(Clause(_, None)) =>
          changes += Change("delete", r.values)
          None
        case Some(Clause(_, Some(set))) =>
          val image = Assign(r.values, set, scope)
          changes += Change("update_preimage", r.values) += Change("update_postimage", image)
          Some(r.copy(values = image))
      }

    val kept = rows.flatMap { r =>
      val hits = src.indices.filter(i =>
        on.eval(Scope(Some(r.values), Some(src(i)), env.reads)).contains(true))
      hits.foreach(used(_) = true)
      if (hits.size > 1) throw new ModelException(s"row $r matches $hits")
      hits.headOption match {
        case Some(i) => apply(r, matched, Scope(Some(r.values), Some(src(i)), env.reads))
        case None => apply(r, notMatchedBySource, Scope(Some(r.values), None, env.reads))
      }
    }
    val inserted = src.indices.filterNot(used(_)).flatMap { i =>
      val scope = Scope(None, Some(src(i)), env.reads)
      notMatched.find(_.when.forall(_.eval(scope).contains(true))).map { c =>
        val row = c.values.map(_.eval(scope))
        changes += Change("insert", row)
        ModelRow(env.fresh(), row)
      }
    }
    Effect(kept ++ inserted, changes.result())
  }

  override def untrackedSelfRead: Boolean =
    (matched ++ notMatchedBySource).exists(_.set.exists(_.exists(_._2.readsSelf))) ||
      notMatched.exists(_.values.exists(_.readsSelf))
}

/** A blind append, in one data file or in several. */
final case class Insert(rows: Vector[Record], files: Int) extends Statement {
  override def sql(n: Names): String = {
    val values = Rows(rows).sql(n)
    val spread = if (files == 1) values
      else values.replaceFirst("\\*", s"/*+ REPARTITION_BY_RANGE($files, id) */ *")
    s"INSERT INTO ${n.self} $spread"
  }

  override def run(state: Vector[ModelRow], env: Env): Effect =
    Effect(state ++ rows.map(ModelRow(env.fresh(), _)), rows.map(Change("insert", _)))
}

/** Appends a copy of some rows under other ids: an append that is not blind. */
final case class InsertSelect(where: Option[Pred], shift: Long) extends Statement {
  override def sql(n: Names): String =
    s"INSERT INTO ${n.self} SELECT t.id + ${shift}L AS id, t.p, t.v, t.s FROM ${n.self} AS t" +
      where.fold("")(w => s" WHERE ${w.sql(n)}")

  override def run(state: Vector[ModelRow], env: Env): Effect = {
    val copies = env.reads.self.toVector
      .filter(r => where.forall(_.eval(Scope(Some(r), None, env.reads)).contains(true)))
      .map(r => r.updated(0, Add(Const(r(0)), Const(Num(shift))).eval(
        Scope(None, None, env.reads))))
    Effect(state ++ copies.map(ModelRow(env.fresh(), _)), copies.map(Change("insert", _)))
  }
}

/** A statement that moves rows between files and changes none. */
sealed trait Maintenance extends Statement {
  override def run(rows: Vector[ModelRow], env: Env): Effect = Effect(rows, Vector.empty)
  override def isDml: Boolean = false
}

case object Optimize extends Maintenance {
  override def sql(n: Names): String = s"OPTIMIZE ${n.self}"
}

case object Purge extends Maintenance {
  override def sql(n: Names): String = s"REORG TABLE ${n.self} APPLY (PURGE)"
}

/** Several commits in one statement: it runs without a stop. */
case object EnableRowTracking extends Maintenance {
  override def sql(n: Names): String =
    s"ALTER TABLE ${n.self} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
  override def canPause: Boolean = false
}

/** Back to the version that lies `back` before the last one of the table's set-up. */
final case class Restore(back: Int) extends Statement {
  override def sql(n: Names): String =
    s"RESTORE TABLE ${n.self} TO VERSION AS OF ${n.restoreTo(back)}"

  /** Its feed is not defined row by row (it moves whole files), so it is given as a difference. */
  override def run(rows: Vector[ModelRow], env: Env): Effect = {
    val after = env.restoreTo(back)
    Effect(after, Change.net(rows.map(_.values), after.map(_.values)))
  }
}

object Change {
  /** Deletes and inserts that lead from one multiset of rows to another, without any in common. */
  def net(before: Seq[Record], after: Seq[Record]): Vector[Change] =
    (before.diff(after).map(Change("delete", _)) ++ after.diff(before).map(Change("insert", _)))
      .toVector

  /** The same difference, out of a feed. */
  def net(feed: Seq[Change]): Vector[Change] = {
    val (gone, come) = feed.partition(c => c.kind == "delete" || c.kind == "update_preimage")
    net(gone.map(_.values), come.map(_.values))
  }
}
