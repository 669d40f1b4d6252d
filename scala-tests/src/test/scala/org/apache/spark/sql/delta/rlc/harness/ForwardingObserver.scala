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

import org.apache.spark.sql.delta.{OptimisticTransaction, TransactionExecutionObserver}

/** An observer that hands everything on: a base for those that change one thing. */
class ForwardingObserver(to: TransactionExecutionObserver) extends TransactionExecutionObserver {
  override def startingTransaction(f: => OptimisticTransaction): OptimisticTransaction =
    to.startingTransaction(f)
  override def preparingCommit[T](f: => T): T = to.preparingCommit(f)
  override def beginDoCommit(): Unit = to.beginDoCommit()
  override def beginBackfill(): Unit = to.beginBackfill()
  override def beginPostCommit(): Unit = to.beginPostCommit()
  override def transactionCommitted(): Unit = to.transactionCommitted()
  override def transactionAborted(): Unit = to.transactionAborted()
  override def createChild(): TransactionExecutionObserver = to.createChild()
}
