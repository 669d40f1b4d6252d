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

import java.util.concurrent.{Executors, TimeUnit}

import scala.util.Try

import io.delta.exceptions.ConcurrentAppendException
import io.delta.tables.DeltaTable

import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.delta.{NoOpTransactionExecutionObserver, TransactionExecutionObserver}
import org.apache.spark.sql.delta.rlc.harness._
import org.apache.spark.sql.functions.{expr, lit}
import org.apache.spark.sql.streaming.Trigger

/** The ways a statement comes to run, and that nobody sees the hook while it does. */
class CommandScopeSuite extends RowLevelTest {

  private def delete(ids: Int*): Statement =
    s"DELETE FROM {t} WHERE id IN (${ids.mkString(", ")})"

  private def forPath(session: SparkSession, name: String): DeltaTable =
    DeltaTable.forPath(session, Statement.pathOf(name))

  test("DeltaTable.delete commits beside a DELETE") {
    bothCommit(TableSpec(),
      Statement.of("DeltaTable.delete")((s, name) => forPath(s, name).delete("id = 1")),
      Seq(delete(2)))
  }

  test("DeltaTable.update commits beside a DELETE") {
    bothCommit(TableSpec(),
      Statement.of("DeltaTable.update")((s, name) =>
        forPath(s, name).update(expr("id = 1"), Map("v" -> lit(-1L)))),
      Seq(delete(2)))
  }

  test("[S59] a MERGE built on one thread and executed on another commits beside a DELETE") {
    bothCommit(TableSpec(), Statement.of("DeltaTable.merge") { (s, name) =>
      val merge = Running.onFreshThread(s, "the builder") {
        forPath(s, name).as("t").merge(s.range(1, 2).toDF("k").as("s"), "t.id = s.k")
          .whenMatched().delete()
      }
      merge.execute()
      ()
    }, Seq(delete(2)))
  }

  test("DataFrame.mergeInto commits beside a DELETE") {
    bothCommit(TableSpec(), Statement.of("DataFrame.mergeInto") { (s, name) =>
      s.range(1, 2).toDF("k").mergeInto(name, expr("id = k")).whenMatched().delete().merge()
    }, Seq(delete(2)))
  }

  test("four sessions of one context on a thread pool all commit") {
    val t = table()
    val pool = Executors.newFixedThreadPool(4)
    try {
      val running = (1 to 4).map { id =>
        val session = RlcSession.on.newSession()
        RlcSession.on.conf.getAll.foreach { case (k, v) =>
          if (session.conf.isModifiable(k)) session.conf.set(k, v)
        }
        t.begin(Statement.of(s"DELETE $id in a session of its own") { (s, name) =>
          val locks = TransactionExecutionObserver.getObserver
          pool.submit[Unit] { () =>
            TransactionExecutionObserver.withObserver(locks) {
              s.sql(s"DELETE FROM $name WHERE id = $id").collect()
              ()
            }
          }.get()
        }, session)
      }
      // All have read version 0: each but the first loses to all before it.
      running.foreach(t.commit)
      running.tail.foreach(assertResolved(_, merged = 1, untouched = 0))
      t.check()
    } finally pool.shutdownNow()
  }

  test("an auto compaction after a merged commit runs as on stock") {
    val t = table(TableSpec().withProperties("delta.autoOptimize.autoCompact" -> "true"))
    withConf("spark.databricks.delta.autoCompact.minNumFiles" -> "2",
        "spark.databricks.delta.autoCompact.earlySkipPartitionTable.enabled" -> "false",
        "spark.databricks.delta.autoCompact.modifiedPartitionsOnly.enabled" -> "false") {
      val a = t.begin("UPDATE {t} SET v = -1 WHERE id = 1")
      t.run(delete(2))
      t.commit(a)
      assertResolved(a, merged = 1, untouched = 0)
      assert(t.sql("DESCRIBE HISTORY {t}").take(3).map(_.getAs[String]("operation")).toSeq ===
        Seq("OPTIMIZE", "UPDATE", "DELETE"))
      assert(t.rows().contains("[1,-1]") && t.ids() === Seq(0, 1, 3, 4, 5, 6, 7, 8, 9))
    }
  }

  test("[S58] a MERGE in foreachBatch commits beside a DELETE") {
    val source = table(TableSpec(files = Seq("SELECT 1L AS k")))
    bothCommit(TableSpec(), Statement.of("stream of MERGEs") { (s, name) =>
      // The batch runs on the stream's thread: the locks of this one have to go along.
      val locks = TransactionExecutionObserver.getObserver
      s.readStream.format("delta").load(source.dir.toString).writeStream
        .foreachBatch { (batch: DataFrame, _: Long) =>
          TransactionExecutionObserver.withObserver(locks) {
            forPath(batch.sparkSession, name).as("t").merge(batch.as("s"), "t.id = s.k")
              .whenMatched().delete().execute()
          }
          ()
        }
        .option("checkpointLocation", Statement.pathOf(name) + "-checkpoint")
        .trigger(Trigger.AvailableNow()).start().awaitTermination()
    }, Seq(delete(2)))
  }

  test("[S60] a session with the feature off on a thread that has just run one with it on") {
    val other = table()
    val t = table()
    val a = t.begin(Statement("off after on", (session, name) => {
      val before = TransactionExecutionObserver.getObserver
      TransactionExecutionObserver.withObserver(NoOpTransactionExecutionObserver) {
        RlcSession.on.sql(s"DELETE FROM ${other.name} WHERE id = 1").collect()
        assert(TransactionExecutionObserver.getObserver eq NoOpTransactionExecutionObserver)
      }
      assert(TransactionExecutionObserver.getObserver eq before)
      session.sql(s"DELETE FROM $name WHERE id = 1").collect()
    }), RlcSession.off)
    t.run(delete(2), RlcSession.off)
    t.conflict[ConcurrentAppendException](a)
    assert(a.resolutions.isEmpty)
  }

  test("the thread's observer is put back, also after a failure") {
    val t = table()
    val before = TransactionExecutionObserver.getObserver
    t.run(delete(1))
    assert(TransactionExecutionObserver.getObserver eq before)
    assert(Try(t.sql("UPDATE {t} SET v = CAST('x' AS BIGINT) WHERE id = 2")).isFailure)
    assert(TransactionExecutionObserver.getObserver eq before)
  }

  test("[S61] observers chained on one thread are both driven, and both statements merged") {
    val t = table()
    val first = new GateObserver("first")
    val second = new GateObserver("second")
    first.setNextObserver(second, autoAdvance = true)
    @volatile var outcome: Try[Unit] = null
    @volatile var lastObserver: TransactionExecutionObserver = null
    val thread = new Thread(() => {
      outcome = Try {
        SparkSession.setActiveSession(spark)
        TransactionExecutionObserver.withObserver(first) {
          t.sql("DELETE FROM {t} WHERE id = 1")
          t.sql("DELETE FROM {t} WHERE id = 3")
          lastObserver = TransactionExecutionObserver.getObserver
        }
      }
    }, "rlc-chained")
    thread.setDaemon(true)
    thread.start()
    Seq(first -> 2, second -> 4).foreach { case (observer, id) =>
      assert(observer.stopped.await(3, TimeUnit.MINUTES))
      t.sql(s"DELETE FROM {t} WHERE id = $id")
      observer.open()
      if (observer eq first) observer.phases.postCommitPhase.leave()
    }
    thread.join(180000)
    outcome.get
    assert(lastObserver eq second)
    assert(first.allPhasesHavePassed && second.allPhasesHavePassed)
    assert(t.ids() === Seq(0, 5, 6, 7, 8, 9))
  }

  test("[S80] EXPLAIN, metrics and the rows of the three statements are those of stock") {
    val statements = Seq(
      "DELETE FROM {t} WHERE id = 1",
      "UPDATE {t} SET v = -1 WHERE id IN (2, 3)",
      "MERGE INTO {t} USING (SELECT 4 AS k) s ON id = s.k WHEN MATCHED THEN DELETE",
      "DELETE FROM {t} WHERE id = 77")
    val Seq(ours, stock) = Seq(RlcSession.on, RlcSession.off).map { session =>
      val t = new TestTable(TableSpec(), session)
      def plain(text: String): String = text.replace(t.dir.toString, "T").replaceAll("#\\d+L?", "#")
        .replaceAll("(plan_id|id)=\\d+", "$1=")
        .replaceAll("TahoeBatchFileIndex\\([^)]*\\)|@[0-9a-f]+", "")
      // A plan that is cut short would show how long the table's path is.
      RlcSession.withConf(session, "spark.sql.maxPlanStringLength" -> "1000000") {
        statements.map { s =>
          val explained = t.sql(s"EXPLAIN EXTENDED $s").head.getString(0)
          val df = session.sql(s.replace("{t}", t.name))
          val plan = df.queryExecution.executedPlan
          val inner = plan.collectLeaves().head
          (plain(explained), df.schema, df.collect().toSeq, plain(plan.toString),
            inner.metrics.keySet, plan.nodeName)
        }
      }
    }: @unchecked
    ours.zip(stock).foreach { case (a, b) => assert(a === b) }
  }

  test("[S80] the number of affected rows after a merge") {
    val t = table()
    val a = t.begin("DELETE FROM {t} WHERE id IN (1, 3)")
    t.run(delete(2))
    assert(t.commit(a).result.get.map(_.getLong(0)).toSeq === Seq(2))
  }
}
