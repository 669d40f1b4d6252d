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

/** What one version of Delta can do and an older one cannot, as far as a test depends on it. */
object DeltaCan {
  private val minor = io.delta.VERSION.split('.')(1).toInt

  /** Let a winner pass whose metadata changes nothing that matters, such as that of a RESTORE. */
  val passHarmlessMetadata: Boolean = minor >= 1

  /** Run a DELETE with an EXISTS subquery. */
  val deleteWhereExists: Boolean = minor >= 3

  /** Read a deletion vector on disk whose descriptor has no offset. */
  val readDvWithoutOffset: Boolean = minor >= 2

  /** Find a commit of its own in the log whose answer was lost. */
  val findItsCommit: Boolean = minor >= 4

  /** Keep the metadata of a table in the files of its log where that is cheaper. */
  val adaptiveMetadata: Boolean = minor >= 4
}
