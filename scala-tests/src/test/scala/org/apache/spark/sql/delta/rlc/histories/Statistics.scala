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

import scala.collection.mutable

/** What many histories were like, added up. Not thread-safe. */
final class Statistics {
  private var groups = 0
  private var failed = 0
  private var statements = 0
  private var commits = 0
  private var raced = 0
  private var rebased = 0
  private var mergedFiles = 0
  private var untouchedFiles = 0
  private var secondPasses = 0
  private var secondMerges = 0
  private var holes = 0
  private var reordered = 0
  private val aborted = mutable.TreeMap.empty[String, Int]
  private val unplanned = mutable.TreeMap.empty[String, Int]
  private val rules = mutable.TreeMap.empty[String, Int]
  private val kinds = mutable.TreeMap.empty[String, Array[Int]]
  private var both = 0
  private var stockAborts = 0
  private var ourAborts = 0

  private def bump[K](m: mutable.Map[K, Int], k: K): Unit = m(k) = m.getOrElse(k, 0) + 1

  /** Statements of a history that Delta's own checks would have aborted, and those that they did. */
  def conflicts: Int = rebased + aborted.values.sum
  def merged: Int = rebased
  /** Histories that no allowed serial run explains. */
  def disagreements: Int = failed

  def add(r: Report): Unit = {
    groups += 1
    failed += (if (r.result.isLeft) 1 else 0)
    r.done.foreach { d =>
      statements += 1
      secondPasses += (if (d.passes.size > 1) 1 else 0)
      // Name, committed, of these rebased, aborted.
      val kind = kinds.getOrElseUpdate(d.statement.getClass.getSimpleName.stripSuffix("$"),
        Array(0, 0, 0))
      d.ending match {
        case Committed(vs) =>
          commits += vs.size
          kind(0) += 1
          if (d.resolvedSomething) {
            rebased += 1
            kind(1) += 1
            if (d.passes.count(p => p.merged + p.removed + p.untouched > 0) > 1) secondMerges += 1
          }
          mergedFiles += d.passes.map(p => p.merged + p.removed).sum
          untouchedFiles += d.passes.map(_.untouched).sum
        case Aborted(cause) if cause.startsWith("not planned") => bump(unplanned, cause)
        case Aborted(cause) =>
          kind(2) += 1
          bump(aborted, cause)
          // Without a refusal it was a new file of a winner that the append check saw.
          val why = d.passes.lastOption.toSeq.flatMap(_.rules).distinct
          (if (why.isEmpty) Seq("none: Delta's own checks") else why).foreach(bump(rules, _))
        case _ =>
      }
    }
    r.result.foreach { a =>
      raced += a.raced
      holes += a.stockHoles
      reordered += (if (a.reordered) 1 else 0)
    }
  }

  /** The same case with the product on and off. */
  def compare(on: Report, off: Report): Unit = {
    def aborts(r: Report): Int = r.done.count(_.ending.isInstanceOf[Aborted])
    both += 1
    ourAborts += aborts(on)
    stockAborts += aborts(off)
  }

  def text: String = {
    val share = if (conflicts == 0) 0 else 100 * rebased / conflicts
    val lines = Seq(
      s"groups                     $groups, of these $failed disagree",
      s"statements                 $statements, commits $commits, of these after a winner $raced",
      s"conflicts                  $conflicts, of these merged $rebased ($share %), aborted " +
        s"${aborted.values.sum}",
      s"files                      $mergedFiles merged, $untouchedFiles untouched by the loser",
      s"second passes              $secondPasses, both resolved $secondMerges",
      s"blind appends reordered    $reordered groups",
      s"stock's own hole           $holes (untracked subqueries, not merged by us)") ++
      aborted.map { case (k, n) => f"aborted by                 $n%5d $k" } ++
      unplanned.map { case (k, n) => f"never ran                  $n%5d $k" } ++
      rules.map { case (k, n) => f"aborts, refused by         $n%5d $k" } ++
      kinds.map { case (k, n) => f"$k%-18s committed ${n(0)}%5d, of these merged ${n(1)}%5d, aborted ${n(2)}%5d" } ++
      (if (both == 0) Nil else Seq(
        s"run on stock too           $both groups: $stockAborts aborts there, $ourAborts here"))
    lines.mkString("\n")
  }
}
