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
package io.github.deltarlc

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.delta.rlc.harness.LogLines

/** What a jar is for, and what it does beside anything else. */
class CompatibilitySuite extends AnyFunSuite {

  private def lines(file: String*): Seq[String] = Files.readAllLines(
    Paths.get(System.getProperty("delta.rlc.test.root"), file: _*), UTF_8).asScala.toSeq

  test("docs/compatibility.md shows every combination that is built, in order") {
    val built = lines("gradle", "combinations.txt").map(_.trim)
      .filterNot(line => line.isEmpty || line.startsWith("#")).map(_.split("\\s+").toSeq)
    val shown = lines("docs", "compatibility.md").map(_.split('|').map(_.trim).toSeq).collect {
      case Seq("", delta, spark, _*) if delta.matches("\\d+\\.\\d+\\.\\d+") =>
        delta +: spark.split(", also ").toSeq
    }
    assert(shown === built)
    assert(built.exists(_.startsWith(Seq(BuildInfo.deltaVersion, BuildInfo.sparkVersion))))
  }

  /** Whether `extension` plans anything in the sessions it is asked into. */
  private def isOn(extension: RowLevelConcurrencyExtension): Boolean = {
    var injected = 0
    extension(new SparkSessionExtensions {
      override def injectPlannerStrategy(builder: StrategyBuilder): Unit = injected += 1
    })
    injected == 1
  }

  test("it is on beside the versions it was built for, and another patch of that Spark") {
    val patch = BuildInfo.sparkVersion.split('.').take(2).mkString(".") + ".99"
    assert(isOn(new RowLevelConcurrencyExtension))
    assert(isOn(new RowLevelConcurrencyExtension(BuildInfo.deltaVersion, patch)))
  }

  test("beside another Delta or another minor version of Spark it stays off and says so once") {
    val said = LogLines.during(classOf[RowLevelConcurrencyExtension]) {
      val (delta, spark) = (BuildInfo.deltaVersion, BuildInfo.sparkVersion)
      for ((otherDelta, otherSpark) <- Seq(
          delta -> "3.5.6", delta -> "4.99.0", "4.99.0" -> spark, s"$delta.1" -> spark,
          "none (java.lang.NoClassDefFoundError)" -> spark)) {
        assert(!isOn(new RowLevelConcurrencyExtension(otherDelta, otherSpark)))
      }
    }
    assert(said === Seq("Row-level concurrency stays off: this jar is built for Delta " +
      s"${BuildInfo.deltaVersion} on Spark ${BuildInfo.sparkVersion.split('.').take(2).mkString(".")}" +
      s", the class path has Delta ${BuildInfo.deltaVersion} on Spark 3.5.6"))
  }
}
