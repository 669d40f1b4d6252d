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
 * A table before the race.
 *
 * @param files the rows of each data file; a partitioned table splits them further, by `p`
 * @param setup statements that run one after the other before the race, such as a DELETE that
 *              leaves deletion vectors
 */
final case class Table(
    files: Vector[Vector[Record]],
    partitioned: Boolean = false,
    setup: Vector[Statement] = Vector.empty,
    cdf: Boolean = false,
    rowTracking: Boolean = false,
    writeSerializable: Boolean = false,
    commitTimestamps: Boolean = false)

/**
 * One history: a table, statements that race on it, and the order in which they move.
 *
 * Exactly one statement runs at a time. Each number in `schedule` lets that statement run to its
 * next stop: after it fixed its snapshot, before its first attempt to commit, and after each pass of
 * conflict resolution, where the winners of a second pass come in. Once the schedule is used up the
 * statements run to their ends in the order of the list. The same case gives the same history.
 *
 * @param materialize whether MERGE keeps a copy of its source, as it does by default; without one
 *                    it takes half the time
 */
final case class Case(
    table: Table,
    statements: Vector[Statement],
    schedule: Vector[Int],
    materialize: Boolean = false)

/** Writes a case as Scala that builds it again. */
object CaseText {
  def apply(x: Any): String = x match {
    case s: String => "\"" + s.replace("\\", "\\\\").replace("\"", "\\\"") + "\""
    case n: Long => s"${n}L"
    case v: Vector[_] => v.map(apply).mkString("Vector(", ", ", ")")
    case o: Option[_] => o.fold("None")(y => s"Some(${apply(y)})")
    case (a, b) => s"${apply(a)} -> ${apply(b)}"
    case p: Product if p.productArity == 0 => p.productPrefix
    case p: Product => p.productIterator.map(apply).mkString(s"${p.productPrefix}(", ", ", ")")
    case other => other.toString
  }
}
