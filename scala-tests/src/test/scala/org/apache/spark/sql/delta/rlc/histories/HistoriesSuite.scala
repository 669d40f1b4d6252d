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

import org.scalatest.funsuite.AnyFunSuite

/**
 * Random histories on the product: each must agree with a serial run in commit order. Any number of
 * them runs with `./dev histories`; here it is as many as fit into a test run.
 *
 * `-Drlc.histories.count=N` and `-Drlc.histories.seed=N` run others.
 */
class HistoriesSuite extends AnyFunSuite {

  private val count = Integer.getInteger("rlc.histories.count", 200)
  private val seed = java.lang.Long.getLong("rlc.histories.seed", 1L)
  private lazy val lab = new Lab(flag = true)

  test(s"[S75] $count random histories agree with a serial run in commit order") {
    val campaign = new Campaign(lab, new Lab(flag = false))
    val failed = campaign.run(seed, count, stopAfter = 1)
    info(campaign.statistics.text)
    failed.foreach { case (s, report) => fail(FailureText(campaign.shrink(report), Some(s))) }
    // Being right by merging nothing would be no achievement.
    assert(campaign.statistics.merged * 5 > campaign.statistics.conflicts,
      "hardly any conflict was merged")
  }

  /** For cases that `FailureText` prints. */
  protected def agrees(history: Case): Unit = {
    val report = new Histories(lab).run(history)
    if (report.result.isLeft) fail(FailureText(report, None))
  }
}
