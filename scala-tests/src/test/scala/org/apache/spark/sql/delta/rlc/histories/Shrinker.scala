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
 * Makes a failing case smaller while it goes on failing: fewer statements, stops, features, rows and
 * clauses, in this order, until nothing more can go.
 *
 * @param stillFails whether a smaller case fails too
 * @param tries how many cases may be run; each takes about a second
 */
final class Shrinker(stillFails: Case => Boolean, tries: Int) {
  private var left = tries

  def shrink(failing: Case): Case = {
    val smaller = candidates(failing).filter(_ != failing).find { c =>
      left > 0 && { left -= 1; stillFails(c) }
    }
    smaller.fold(failing)(shrink)
  }

  private def candidates(c: Case): Iterator[Case] =
    statements(c) ++ stops(c) ++ features(c) ++ simpler(c) ++ rows(c)

  private def statements(c: Case): Iterator[Case] =
    if (c.statements.size < 2) Iterator.empty
    else c.statements.indices.iterator.map { i =>
      c.copy(
        statements = c.statements.patch(i, Nil, 1),
        schedule = c.schedule.filter(_ != i).map(j => if (j > i) j - 1 else j))
    }

  private def stops(c: Case): Iterator[Case] = {
    val n = c.schedule.size
    Iterator(n / 2, n / 4).filter(_ > 1).flatMap(k =>
      Iterator(c.copy(schedule = c.schedule.dropRight(k)))) ++
      c.schedule.indices.reverseIterator.map(i => c.copy(schedule = c.schedule.patch(i, Nil, 1)))
  }

  private def features(c: Case): Iterator[Case] = {
    val t = c.table
    Iterator(c.copy(materialize = false)) ++ Iterator(
      t.copy(commitTimestamps = false), t.copy(cdf = false), t.copy(rowTracking = false), t.copy(partitioned = false),
      t.copy(writeSerializable = false), t.copy(setup = Vector.empty),
      t.copy(files = Vector(t.files.flatten))).map(x => c.copy(table = x)) ++
      t.setup.indices.iterator.map(i => c.copy(table = t.copy(setup = t.setup.patch(i, Nil, 1))))
  }

  private def rows(c: Case): Iterator[Case] = {
    val files = c.table.files
    files.indices.iterator.flatMap { f =>
      val smaller = files(f).indices.iterator.map(r => files(f).patch(r, Nil, 1))
      (if (files.size > 1) Iterator(files.patch(f, Nil, 1)) else Iterator.empty) ++
        smaller.filter(_.nonEmpty).map(files.updated(f, _))
    }.map(fs => c.copy(table = c.table.copy(files = fs)))
  }

  private def simpler(c: Case): Iterator[Case] = c.statements.indices.iterator.flatMap { i =>
    (c.statements(i) match {
      case Delete(Some(w)) => preds(w).map(p => Delete(Some(p)))
      case Update(set, w) =>
        w.iterator.flatMap(preds).map(p => Update(set, Some(p))) ++
          (if (set.size > 1) set.iterator.map(s => Update(Vector(s), w)) else Iterator.empty)
      case m: Merge =>
        val clauses = m.matched.size + m.notMatched.size + m.notMatchedBySource.size
        val fewer = if (clauses < 2) Iterator.empty else {
          m.matched.indices.iterator.map(j => m.copy(matched = m.matched.patch(j, Nil, 1))) ++
            m.notMatched.indices.iterator.map(j =>
              m.copy(notMatched = m.notMatched.patch(j, Nil, 1))) ++
            m.notMatchedBySource.indices.iterator.map(j =>
              m.copy(notMatchedBySource = m.notMatchedBySource.patch(j, Nil, 1)))
        }
        val lessSource = m.source match {
          case Rows(rs) if rs.size > 1 =>
            rs.indices.iterator.map(j => m.copy(source = Rows(rs.patch(j, Nil, 1))))
          case _ => Iterator.empty
        }
        fewer ++ lessSource
      case Insert(rs, files) if rs.size > 1 =>
        rs.indices.iterator.map(j => Insert(rs.patch(j, Nil, 1), math.min(files, rs.size - 1)))
      case _ => Iterator.empty
    }).map(s => c.copy(statements = c.statements.updated(i, s)))
  }

  private def preds(p: Pred): Iterator[Pred] = p match {
    case And(l, r) => Iterator(l, r)
    case Or(l, r) => Iterator(l, r)
    case In(e, vs) if vs.size > 1 => vs.indices.iterator.map(i => In(e, vs.patch(i, Nil, 1)))
    case _ => Iterator.empty
  }
}

/** A failed history for people: what ran in which order, and the code that runs it again. */
object FailureText {
  def apply(r: Report, seed: Option[Long]): String = {
    val d = r.result.swap.toOption.get
    val names = Names("t", "other", back => -back.toLong)
    val setup = r.history.table.setup.map(s => s"  before:  ${s.sql(names)}")
    val lines = r.done.zipWithIndex.map { case (x, i) =>
      val ending = x.ending match {
        case Committed(vs) => s"committed ${vs.mkString(", ")}"
        case NothingToDo => "nothing to do"
        case Aborted(cause) => s"aborted ($cause)"
        case Crashed(e) => s"crashed ($e)"
      }
      val passes = x.passes.map(p => s"pass ${p.number}: ${p.merged} merged, ${p.removed} removed, " +
        s"${p.untouched} untouched${p.rules.map(" " + _).mkString}")
      s"  $i: ${x.statement.sql(names)}\n     read ${x.readVersions.mkString(", ")}, $ending" +
        passes.map("\n     " + _).mkString
    }
    val code = CaseText(r.history)
      .replace(", Vector(Delete", ",\n    Vector(Delete")
    (Seq(
      s"---- ${d.kind}${seed.fold("")(s => s" (seed $s)")}",
      d.detail) ++ setup ++ lines ++ Seq(
      s"""  test("history ${seed.fold("")(_.toString)}: ${d.kind}") {
         |    agrees($code)
         |  }""".stripMargin)).mkString("\n")
  }
}
