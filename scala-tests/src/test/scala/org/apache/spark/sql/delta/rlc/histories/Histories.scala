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

import scala.util.{Failure, Success, Try}

import org.apache.spark.sql.delta.rlc.harness.Causes

/** A history that ran: how its statements ended, and whether a serial run explains it. */
final case class Report(
    history: Case,
    done: Vector[Done],
    result: Either[Disagreement, Agreement])

/** Runs and checks single cases. */
final class Histories(lab: Lab) {

  /**
   * Runs a case and compares it with the model.
   *
   * @param twice whether Delta reads the final rows too, which costs more than the rest of the check
   */
  def run(history: Case, twice: Boolean = true): Report = {
    val template = Lab.template(history.table)
    val dir = Lab.copy(template)
    try {
      var done = Vector.empty[Done]
      val result = Try {
        done = new Driver(lab, dir, template, history).run()
        done.map(_.ending).collectFirst { case Crashed(e) => e } match {
          case Some(e) => Left(Disagreement("crash", Histories.stack(e)))
          case None =>
            val observed = Observed.read(
              lab.session(history), dir, template.lastVersion, history.table.cdf, twice)
            new Checker(
              history.table, template.history, template.restoreTo, done, observed).check()
        }
      } match {
        case Success(r) => r
        case Failure(e: BrokenLog) => Left(Disagreement("log", e.getMessage))
        case Failure(e) => Left(Disagreement("crash", Histories.stack(e)))
      }
      Report(history, done, result)
    } finally Lab.drop(dir)
  }
}

object Histories {
  private[histories] def stack(e: Throwable): String = {
    val causes = Causes.of(e).take(5).map { t =>
      s"$t\n" + t.getStackTrace.take(12).map(f => s"    at $f").mkString("\n")
    }
    causes.mkString("\ncaused by ")
  }
}
