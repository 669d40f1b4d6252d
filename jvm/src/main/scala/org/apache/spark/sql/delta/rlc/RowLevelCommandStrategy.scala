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

import org.apache.spark.sql.delta.commands.{DeleteCommand, MergeIntoCommand, UpdateCommand}

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.command.{ExecutedCommandExec, RunnableCommand}

/**
 * Plans Delta's three DML commands so that their transactions are row-level ones.
 *
 * Every way into a DML command plans it on the thread that runs it: SQL, DeltaTable, foreachBatch,
 * Thrift, Connect. A rule that replaces the command instead would break replaceWhere, which casts
 * the analysed plan to [[DeleteCommand]].
 */
private[rlc] final class RowLevelCommandStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case command: DeleteCommand => Seq(new RowLevelCommandExec(command))
    case command: UpdateCommand => Seq(new RowLevelCommandExec(command))
    case command: MergeIntoCommand => Seq(new RowLevelCommandExec(command))
    case _ => Nil
  }
}

/**
 * [[ExecutedCommandExec]] of the command itself, so that EXPLAIN, metrics, result and whatever
 * matches on the plan see stock Spark's node; only its execution runs in our scope. The first of
 * these methods to be called runs the command.
 */
private[rlc] final class RowLevelCommandExec(command: RunnableCommand)
  extends ExecutedCommandExec(command) {

  private def inScope[T](body: => T): T = {
    // Evaluated lazily by the scope: with the feature off nobody looks at the command.
    def facts: CommandFacts = CommandFacts.of(command).getOrElse(
      throw new IllegalStateException(s"not a DML command: ${command.nodeName}"))
    RowLevelObserver.inScope(RowLevelConcurrencyConf.settings(session.sessionState.conf), facts)(
      body)
  }

  override def executeCollect(): Array[InternalRow] = inScope(super.executeCollect())
  override def executeToIterator(): Iterator[InternalRow] = inScope(super.executeToIterator())
  override def executeTake(limit: Int): Array[InternalRow] = inScope(super.executeTake(limit))
  override def executeTail(limit: Int): Array[InternalRow] = inScope(super.executeTail(limit))
  override protected def doExecute(): RDD[InternalRow] = inScope(super.doExecute())
}

/** What the extension needs from this package. */
object RowLevelCommandStrategy {
  /** Registers the confs and the metrics, and gives the strategy to inject. */
  def create(): SparkStrategy = {
    RowLevelConcurrencyConf.register()
    RowLevelMetrics.current
    new RowLevelCommandStrategy
  }
}
