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

import org.apache.spark.sql.delta.DeltaLog
import org.apache.spark.sql.delta.catalog.DeltaTableV2
import org.apache.spark.sql.delta.commands.{DeleteCommand, MergeIntoCommand, UpdateCommand}
import org.apache.spark.sql.delta.commands.cdc.CDCReader.DeltaCDFRelation
import org.apache.spark.sql.delta.files.TahoeFileIndex
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.expressions.{Expression, PlanExpression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.connector.catalog.Table
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.apache.spark.sql.execution.command.RunnableCommand
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.sources.BaseRelation

/**
 * What the rules need to know of a command, taken from the command itself: a subquery in SET or in
 * a MERGE action leaves no trace in the transaction, because it is planned before the transaction
 * starts.
 *
 * @param kind DELETE, UPDATE or MERGE
 * @param target the log of the table the command changes
 * @param subquery the first subquery anywhere in its expressions
 * @param nonDeterministic the first condition whose value can differ between two evaluations
 * @param sourceReadsTarget what in a MERGE source can see the target
 * @param conditionalInsert true for a MERGE that inserts and has no unconditional MATCHED clause
 */
private[rlc] final case class CommandFacts(
    kind: String,
    target: DeltaLog,
    subquery: Option[String] = None,
    nonDeterministic: Option[String] = None,
    sourceReadsTarget: Option[String] = None,
    conditionalInsert: Boolean = false)

private[rlc] object CommandFacts {

  /** The facts of a DML command; None for every other command. */
  def of(command: RunnableCommand): Option[CommandFacts] = command match {
    case c: DeleteCommand =>
      Some(expressionFacts("DELETE", c.deltaLog, c.expressions, c.condition.toSeq))
    case c: UpdateCommand =>
      Some(expressionFacts(
        "UPDATE", c.tahoeFileIndex.deltaLog, c.expressions, c.condition.toSeq))
    case c: MergeIntoCommand =>
      val target = c.targetFileIndex.deltaLog
      val clauses = c.matchedClauses ++ c.notMatchedClauses ++ c.notMatchedBySourceClauses
      val conditions = c.condition +: clauses.flatMap(_.condition)
      Some(expressionFacts("MERGE", target, c.expressions, conditions).copy(
        sourceReadsTarget = findTargetRead(c.source, target),
        conditionalInsert =
          c.notMatchedClauses.nonEmpty && !c.matchedClauses.exists(_.condition.isEmpty)))
    case _ => None
  }

  private def expressionFacts(
      kind: String,
      target: DeltaLog,
      all: Seq[Expression],
      conditions: Seq[Expression]): CommandFacts =
    CommandFacts(
      kind,
      target,
      subquery = all.flatMap(_.find(_.isInstanceOf[PlanExpression[_]])).headOption.map(_.sql),
      nonDeterministic = conditions.find(!_.deterministic).map(_.sql))

  /**
   * The first leaf of `source` through which it can see `target`, subqueries included. `source` is
   * the analysed plan, so a cached view still shows the relation it was made from. A leaf that
   * could be the target without saying so counts as one.
   */
  private def findTargetRead(source: LogicalPlan, target: DeltaLog): Option[String] =
    source.collectWithSubqueries {
      case relation: LogicalRelation => readsTarget(relation.relation, target)
      case relation: DataSourceV2Relation => readsTarget(relation.table, target)
      case cached: InMemoryRelation =>
        Some(s"reads cached data (${cached.simpleString(maxFields = 4)})")
    }.flatten.headOption

  private def readsTarget(relation: BaseRelation, target: DeltaLog): Option[String] =
    relation match {
      case fs: HadoopFsRelation if readsTarget(fs, target) => Some(s"reads ${target.dataPath}")
      case cdf: DeltaCDFRelation
          if cdf.snapshotWithSchemaMode.snapshot.deltaLog.isSameLogAs(target) =>
        Some(s"reads the change feed of ${target.dataPath}")
      case _ => None
    }

  private def readsTarget(table: Table, target: DeltaLog): Option[String] = table match {
    case delta: DeltaTableV2 =>
      if (delta.deltaLog.isSameLogAs(target)) Some(s"reads ${target.dataPath}") else None
    case other if other.getClass.getName.startsWith("io.delta.") =>
      Some(s"reads ${other.name} through a connector this check cannot look into")
    case _ => None
  }

  private def readsTarget(relation: HadoopFsRelation, target: DeltaLog): Boolean =
    relation.location match {
      case index: TahoeFileIndex => index.deltaLog.isSameLogAs(target)
      // The table's files read as plain Parquet.
      case index => index.rootPaths.exists(isAtOrBelow(_, target.dataPath))
    }

  private def isAtOrBelow(path: Path, root: Path): Boolean =
    Iterator.iterate(path)(_.getParent).takeWhile(_ != null)
      .exists(_.toUri.getPath == root.toUri.getPath)
}
