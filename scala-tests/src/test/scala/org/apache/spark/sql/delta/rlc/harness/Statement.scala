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

import org.apache.spark.sql.{Row, SparkSession}

/**
 * Something done to a table that can be done again to a copy of it: that is how the oracle works.
 * `run` gets the session and the table's name for SQL, such as "delta.`/tmp/t1`".
 */
final case class Statement(text: String, run: (SparkSession, String) => Array[Row]) {
  override def toString: String = text
}

object Statement {
  import scala.language.implicitConversions

  /** SQL in which `{t}` is the table. */
  implicit def sql(text: String): Statement =
    Statement(text, (session, name) => session.sql(text.replace("{t}", name)).collect())

  /** Any code; it must do the same on every table it is given. */
  def of(text: String)(f: (SparkSession, String) => Unit): Statement =
    Statement(text, (session, name) => { f(session, name); Array.empty[Row] })

  /** `delta.`path`` to the path. */
  def pathOf(name: String): String = name.stripPrefix("delta.`").stripSuffix("`")
}
