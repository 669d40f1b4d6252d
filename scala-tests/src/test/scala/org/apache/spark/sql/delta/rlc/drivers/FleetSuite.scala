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
package org.apache.spark.sql.delta.rlc.drivers

import org.scalatest.funsuite.AnyFunSuite

/** The short version of `./dev drivers --mixed`. */
class FleetSuite extends AnyFunSuite {
  test("drivers with the feature, with and without the flag, and with stock Delta share a table") {
    val kinds = Seq(Kind.On, Kind.Half, Kind.Stock)
    val report = Fleet.run(kinds, rows = 200, seed = 1) { drivers =>
      for (_ <- 1 to 4) drivers.foreach(_.await(Work.mark)) // statements of each
    }
    info(report.text)
    assert(report.commits > kinds.size)
    // The two with the jar lost the first race, against the one without, and against each other.
    assert(report.resolved >= 2 && report.filesMerged >= 2)
  }
}
