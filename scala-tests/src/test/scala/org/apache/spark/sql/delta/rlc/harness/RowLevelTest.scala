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
package org.apache.spark.sql.delta.rlc.harness

import io.delta.exceptions.{ConcurrentAppendException, MetadataChangedException}
import org.scalatest.Outcome
import org.scalatest.funsuite.AnyFunSuite

import io.github.deltarlc.Resolution

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.rlc.ResolutionPolicy

/**
 * Base of the suites: tables, statements and their outcomes in a few words.
 *
 * `-Drlc.test.without=G6,P3` runs every test with those lines of the rule table taken out: tests of
 * these lines must then fail.
 */
trait RowLevelTest extends AnyFunSuite {

  override protected def withFixture(test: NoArgTest): Outcome =
    RowLevelTest.without match {
      case Seq() => super.withFixture(test)
      case rules => ResolutionPolicy.withMutant(new ResolutionPolicy {
        override def enforces(ruleId: String): Boolean = !rules.contains(ruleId)
      })(super.withFixture(test))
    }

  protected def spark: SparkSession = RlcSession.on

  protected def table(spec: TableSpec = TableSpec()): TestTable = new TestTable(spec)

  protected def withConf[T](pairs: (String, String)*)(f: => T): T =
    RlcSession.withConf(RlcSession.on, pairs: _*)(f)

  /**
   * `loser` starts, each winner runs to its end, `loser` commits; both are in the log, the product
   * says it merged `merged` files (removed ones count) and left alone `untouched`, and everything
   * that must hold of the table does.
   */
  protected def bothCommit(
      spec: TableSpec,
      loser: Statement,
      winners: Seq[Statement],
      merged: Int = 1,
      untouched: Int = 0,
      options: CheckOptions = CheckOptions()): TestTable = {
    val t = table(spec)
    val a = t.begin(loser)
    winners.foreach(t.run(_))
    t.commit(a)
    assertResolved(a, merged, untouched)
    t.check(options)
    t
  }

  /**
   * As `loserAborts`, with a winner that writes metadata: a Delta that takes any of it for a change
   * fails before anybody looks at files, so that nobody `refusedBy` names is asked.
   */
  protected def loserAbortsBehindMetadata(
      spec: TableSpec,
      loser: Statement,
      winners: Seq[Statement],
      refusedBy: String = ""): TestTable =
    if (DeltaCan.passHarmlessMetadata) {
      loserAborts[ConcurrentAppendException](spec, loser, winners, refusedBy)
    } else {
      loserAborts[MetadataChangedException](spec, loser, winners)
    }

  /** `loser` starts, winners run, `loser` must fail with `E`; the table is as they left it. */
  protected def loserAborts[E <: Throwable : reflect.ClassTag](
      spec: TableSpec,
      loser: Statement,
      winners: Seq[Statement],
      refusedBy: String = ""): TestTable = {
    val t = table(spec)
    val a = t.begin(loser)
    winners.foreach(t.run(_))
    t.conflict[E](a)
    if (refusedBy.nonEmpty) assertRefused(a, refusedBy)
    t.check(CheckOptions.winnersOnly)
    t
  }

  protected def assertResolved(a: Running, merged: Int, untouched: Int): Unit = {
    val r = lastResolution(a)
    assert(r.refusals.isEmpty, s"refusals of [${a.statement}]")
    assert(r.merged.size + r.removed.size === merged, s"files merged by [${a.statement}]: $r")
    assert(r.untouched.size === untouched, s"files left alone by [${a.statement}]: $r")
    assert(r.rebased, s"$r")
  }

  protected def assertRefused(a: Running, rule: String): Unit = {
    val rules = a.resolutions.flatMap(_.refusals.map(_.rule)).distinct
    assert(rules.contains(rule), s"rules that refused [${a.statement}]")
  }

  protected def lastResolution(a: Running): Resolution =
    a.resolutions.lastOption.getOrElse(
      fail(s"[${a.statement}] never came to a resolution of ours"))
}

private object RowLevelTest {
  val without: Seq[String] =
    System.getProperty("rlc.test.without", "").split(',').filter(_.nonEmpty).toSeq
}
