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
package org.apache.spark.sql.delta.rlc.bench

import java.nio.file.{Files, Path, Paths}

import scala.collection.immutable.ListMap

import org.apache.spark.sql.delta.util.JsonUtils

/**
 * Rows of one benchmark, printed as a table and kept as JSON in build/bench, from where
 * `./dev bench report` makes docs/benchmarks.md.
 */
final class BenchReport(name: String, columns: Seq[String]) {

  private var rows = Vector.empty[Seq[Any]]

  println(columns.map(c => f"$c%16s").mkString(" "))

  def add(values: Any*): Unit = {
    require(values.size == columns.size)
    rows :+= values
    println(values.map {
      case d: Double => f"$d%16.2f"
      case other => f"$other%16s"
    }.mkString(" "))
  }

  def save(): Unit = {
    val dir = BenchReport.directory
    Files.createDirectories(dir)
    val json = JsonUtils.toPrettyJson(rows.map(row => ListMap.from(columns.zip(row))))
    Files.write(dir.resolve(s"$name.json"), json.getBytes("UTF-8"))
  }
}

object BenchReport {
  /** build/bench of the checkout. */
  def directory: Path = Paths.get(
    Option(System.getProperty("delta.rlc.test.root")).getOrElse("."), "build", "bench")
}
