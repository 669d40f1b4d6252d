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

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}

import org.scalatest.funsuite.AnyFunSuite

/** The rule table and its page in the documentation are the same lines. */
class RuleTableSuite extends AnyFunSuite {

  private val page = Paths.get(System.getProperty("delta.rlc.test.root"), "docs", "rules.md")

  private def rendered: String =
    RuleTable.all.map { rule =>
      s"| **${rule.id}** | ${rule.condition} | ${rule.reason} | ${rule.counterexample} | ${rule.countedAs.name} |"
    }.mkString("\n")

  test("docs/rules.md shows every line of the rule table as the code has it") {
    val shown = new String(Files.readAllBytes(page), UTF_8).linesIterator
      .filter(_.matches("\\| \\*\\*[GP]\\d+\\*\\* \\|.*")).mkString("\n")
    assert(shown === rendered, s"\n$page should have these lines:\n$rendered\n")
  }

  test("docs/operations.md shows every reason under which an abort is counted") {
    val counts = RuleTable.all.map(rule => rule.id -> rule.countedAs) ++ RuleTable.circumstances
    val rendered = AbortReason.all.map { reason =>
      val lines = counts.collect { case (id, `reason`) => id }.mkString(", ")
      s"| `aborted.${reason.name}` | ${reason.meaning} | $lines |"
    }.mkString("\n")
    val page = Paths.get(System.getProperty("delta.rlc.test.root"), "docs", "operations.md")
    val shown = new String(Files.readAllBytes(page), UTF_8).linesIterator
      .filter(_.startsWith("| `aborted.")).mkString("\n")
    assert(shown === rendered, s"\n$page should have these lines:\n$rendered\n")
  }

  test("every line of the design has its place in the table") {
    val designed = (1 to 13).map(n => s"G$n") ++ (1 to 6).map(n => s"P$n")
    assert(RuleTable.all.map(_.id) === designed)
  }
}
