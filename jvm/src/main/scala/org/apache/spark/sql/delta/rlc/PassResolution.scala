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

import org.apache.spark.sql.delta._
import org.apache.hadoop.fs.FileStatus

/** What `ConflictPass`, which knows where this version of Delta resolves a lost race, calls there. */
private[rlc] trait PassResolution extends OptimisticTransaction {
  /**
   * What takes the place of `stock`, Delta's resolution of one pass: all commits that won since the
   * transaction read, or since the pass before.
   */
  protected def resolvePass(
      info: CurrentTransactionInfo,
      firstWinner: Long,
      lastWinner: Long,
      commitFiles: Seq[FileStatus],
      isolationLevel: IsolationLevel)(
      stock: => CurrentTransactionInfo): CurrentTransactionInfo
}
