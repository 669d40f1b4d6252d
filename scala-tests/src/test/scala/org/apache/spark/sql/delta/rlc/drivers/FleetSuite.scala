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

/** The short version of `./dev drivers`. */
class FleetSuite extends AnyFunSuite {
  test("drivers with the feature, with and without the flag, and with stock Delta share a table") {
    val report = Fleet.run(Seq(Kind.On, Kind.Half, Kind.Stock), seconds = 15, seed = 1)
    info(report.text)
    assert(report.commits > 5)
    assert(report.filesMerged > 0, "they never met")
  }
}
