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

import java.util.concurrent.atomic.AtomicInteger

import io.delta.exceptions.{ConcurrentAppendException, ConcurrentTransactionException, MetadataChangedException}

import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.delta.{DeletionVectorsTableFeature, DummySnapshot, IsolationLevel, OptimisticTransaction, Serializable, SnapshotIsolation, TableFeature, TransactionExecutionObserver, WriteSerializable}
import org.apache.spark.sql.delta.actions.Protocol
import org.apache.spark.sql.delta.rlc.harness._

/** Lines G of the rule table: which statements may be rebased at all. */
class TransactionGateSuite extends RowLevelTest {
  import TableSpec._

  private def delete(ids: Int*): Statement =
    s"DELETE FROM {t} WHERE id IN (${ids.mkString(", ")})"

  /** MERGE of literal rows `(k, f)` on the id. */
  private def merge(rows: String, clauses: String): Statement =
    s"MERGE INTO {t} USING (SELECT * FROM VALUES $rows AS x(k, f)) s ON {t}.id = s.k $clauses"
      .replace("{t}.id", "id")

  private def mergeFrom(source: String, clauses: String): Statement =
    s"MERGE INTO {t} USING ($source) s ON id = s.k $clauses"

  /** The command is not eligible: conflict by line `rule`, nothing merged. */
  private def refused(rule: String, loser: Statement, winners: Statement*)(
      spec: TableSpec = TableSpec()): TestTable =
    loserAborts[ConcurrentAppendException](spec, loser, winners, refusedBy = rule)

  private val regions = TableSpec(files = Seq("SELECT id, 'EU' AS r FROM range(4)"))

  // ---- G1, G2, G3, G5, G13

  test("[G1] the flag counts as it was when the statement started") {
    val t = table()
    val a = t.begin(delete(1))
    withConf(RlcSession.flag -> "false") {
      val b = t.begin(delete(2))
      t.run(delete(3))
      t.commit(a)
      assertResolved(a, merged = 1, untouched = 0)
      withConf(RlcSession.flag -> "true") {
        t.conflict[ConcurrentAppendException](b)
      }
      assert(b.resolutions.isEmpty)
    }
    t.check()
  }

  test("[G2] a transaction of another class is left alone") {
    val t = table()
    val a = t.begin(Statement("DELETE in another library's transaction", (session, name) => {
      val outer = TransactionExecutionObserver.getObserver
      val foreign = new ForwardingObserver(outer) {
        override def startingTransaction(f: => OptimisticTransaction): OptimisticTransaction =
          outer.startingTransaction {
            val txn = f
            new OptimisticTransaction(txn.deltaLog, txn.catalogTable, txn.snapshot) {}
          }
      }
      TransactionExecutionObserver.withObserver(foreign) {
        session.sql(s"DELETE FROM $name WHERE id = 1").collect()
      }
    }))
    t.run(delete(2))
    t.conflict[ConcurrentAppendException](a)
    assert(a.resolutions.isEmpty)
    t.check(CheckOptions.winnersOnly)
  }

  test("[S54] [G3] a winner that turns deletion vectors off is a metadata conflict") {
    loserAborts[MetadataChangedException](TableSpec(), delete(1),
      Seq("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')"))
  }

  test("[S55] [G3] a statement that started without deletion vectors is not merged") {
    loserAbortsBehindMetadata(TableSpec(deletionVectors = false), delete(1),
      Seq("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')", delete(2)))
  }

  test("[trap 24] [G3] turned off between base and race, old deletion vectors count as base and " +
      "no new one is written") {
    val t = loserAborts[ConcurrentAppendException](
      TableSpec().after("DELETE FROM {t} WHERE id = 9",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')"),
      delete(1), Seq(delete(2)))
    assert(t.ids() === Seq(0, 1, 3, 4, 5, 6, 7, 8))
    assert(t.replay.commits.filter(_.version > t.initialVersion).flatMap(_.adds)
      .forall(_.dv.isEmpty))
  }

  test("[S62] [G5] a replaceWhere that lost is not merged") {
    val t = loserAborts[ConcurrentAppendException](TableSpec(),
      Statement.of("replaceWhere id = 1")((s, name) =>
        s.sql("SELECT 1L AS id, -1L AS v").write.format("delta").mode("overwrite")
          .option("replaceWhere", "id = 1").save(Statement.pathOf(name))),
      Seq(delete(2)))
    assert(t.rows().contains("[1,10]"))
  }

  test("[S62] [G5] an INSERT OVERWRITE that lost is not merged") {
    val t = loserAborts[ConcurrentAppendException](TableSpec(),
      "INSERT OVERWRITE {t} SELECT 1L AS id, -1L AS v", Seq(delete(2)))
    assert(t.ids().size === 9)
  }

  /** A line of the table by its name, for states that no statement here can bring about. */
  private def violated[F](rules: Seq[Rule[F]], id: String, facts: F): Boolean =
    rules.find(_.id == id).get.violation(facts).nonEmpty

  test("[G4] a table with adaptive metadata gets Delta's own transaction") {
    assume(DeltaCan.adaptiveMetadata)
    val adaptive = TableFeature.featureNameToFeature("adaptiveMetadata-preview").get
    // Such tables need a catalog that manages commits, so the snapshot is made up.
    val log = table().log
    val command = CommandFacts("DELETE", log)
    def on(feature: TableFeature): StartFacts = StartFacts(command,
      new OptimisticTransaction(log, None,
        new DummySnapshot(log.logPath, log, log.update().metadata,
          protocolOpt = Some(Protocol(3, 7).withFeature(feature)))))
    assert(violated(RuleTable.start, "G4", on(adaptive)))
    assert(!violated(RuleTable.start, "G4", on(DeletionVectorsTableFeature)))
  }

  test("[G11] snapshot isolation is refused, the two other levels are not") {
    val snapshot = table().log.update()
    def at(level: IsolationLevel): ConflictFacts = ConflictFacts(
      CommandFacts("DELETE", snapshot.deltaLog), null, snapshot.protocol, snapshot.metadata, level,
      sawOtherScan = false)
    assert(violated(RuleTable.conflict, "G11", at(SnapshotIsolation)))
    assert(!violated(RuleTable.conflict, "G11", at(Serializable)))
    assert(!violated(RuleTable.conflict, "G11", at(WriteSerializable)))
  }

  // ---- G6

  test("[S16] [G6] an UPDATE that sets a scalar subquery on its target conflicts") {
    refused("G6", "UPDATE {t} SET v = (SELECT sum(v) FROM {t}) WHERE id = 1", delete(2))()
  }

  test("[S17] [G6] an UPDATE that sets a scalar subquery on another table conflicts") {
    refused("G6", "UPDATE {t} SET v = (SELECT max(id) FROM range(3)) WHERE id = 1", delete(2))()
  }

  test("[S18] [G6] a MERGE whose action has a subquery on the target conflicts") {
    refused("G6", merge("(1, 'x')",
      "WHEN MATCHED THEN UPDATE SET v = (SELECT sum(v) FROM {t})"), delete(2))()
  }

  test("[S19] [G6] a MERGE that inserts the value of a subquery conflicts") {
    refused("G6", merge("(1, 'x'), (100, 'x')", "WHEN MATCHED THEN DELETE " +
      "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (k, (SELECT max(v) FROM {t}))"), delete(2))()
  }

  test("[S20] [trap 3] [G6] of two DELETEs that each ask for the other's row one conflicts") {
    assume(DeltaCan.deleteWhereExists)
    withConf("spark.databricks.delta.delete.allowExistsSubquery" -> "true") {
      val t = refused("G6",
        "DELETE FROM {t} WHERE id = 1 AND EXISTS (SELECT 1 FROM {t} o WHERE o.id = 2)",
        "DELETE FROM {t} WHERE id = 2 AND EXISTS (SELECT 1 FROM {t} o WHERE o.id = 1)")()
      assert(t.ids().intersect(Seq(1L, 2L)) === Seq(1L))
    }
  }

  test("[trap 17] [G6] a condition that changes by itself is refused by analysis") {
    val t = table()
    Seq("DELETE FROM {t} WHERE rand() < 0.5", "UPDATE {t} SET v = 1 WHERE rand() < 0.5",
      "MERGE INTO {t} USING (SELECT 1 AS k) s ON id = s.k AND rand() < 0.5 " +
        "WHEN MATCHED THEN DELETE").foreach { s =>
      intercept[AnalysisException](t.sql(s))
    }
    assert(t.version === t.initialVersion)
  }

  test("[trap 17] a function in the condition is not evaluated again to resolve a conflict") {
    TransactionGateSuite.calls.set(0)
    spark.udf.register("rlc_is_one", (id: Long) => {
      TransactionGateSuite.calls.incrementAndGet()
      id == 1
    }: Boolean)
    RlcSession.off.udf.register("rlc_is_one", (id: Long) => id == 1)
    val t = table()
    val a = t.begin("DELETE FROM {t} WHERE rlc_is_one(id)")
    t.run(delete(2))
    val before = TransactionGateSuite.calls.get()
    assert(before > 0)
    t.commit(a)
    assert(TransactionGateSuite.calls.get() === before)
    assertResolved(a, merged = 1, untouched = 0)
    t.check()
  }

  // ---- G7

  test("[S9] [G7] a MERGE whose source is an aggregate of the target conflicts") {
    refused("G7", mergeFrom("SELECT 1 AS k, sum(v) AS total FROM {t}",
      "WHEN MATCHED THEN UPDATE SET v = total"), delete(2))()
  }

  test("[S11] [G7] a MERGE whose source is the target with a LIMIT conflicts") {
    refused("G7", mergeFrom("SELECT id AS k FROM {t} WHERE id = 1 LIMIT 1",
      "WHEN MATCHED THEN DELETE"), delete(2))()
  }

  test("[S12] [G7] a MERGE whose source counts the target from metadata conflicts") {
    refused("G7", mergeFrom("SELECT count(*) - 9 AS k FROM {t}", "WHEN MATCHED THEN DELETE"),
      delete(2))()
  }

  test("[S13] [G7] a MERGE whose source is an old version of the target conflicts") {
    refused("G7", mergeFrom("SELECT id AS k FROM {t} VERSION AS OF 0 WHERE id = 1",
      "WHEN MATCHED THEN DELETE"), delete(2))()
  }

  test("[S15] [G7] a MERGE from another table commits, although that table changes too") {
    val other = table(TableSpec(files = Seq("SELECT 1L AS k, 'x' AS note")))
    val t = table()
    val a = t.begin(mergeFrom(s"SELECT k FROM ${other.name}", "WHEN MATCHED THEN DELETE"))
    other.run("UPDATE {t} SET note = 'y' WHERE k = 1")
    t.run(delete(2))
    t.commit(a)
    assertResolved(a, merged = 1, untouched = 0)
    t.check()
  }

  test("[trap 3] [G7] of two MERGEs that each read the other's row one conflicts") {
    def ifThere(mine: Int, theirs: Int): Statement =
      mergeFrom(s"SELECT $mine AS k FROM {t} WHERE id = $theirs", "WHEN MATCHED THEN DELETE")
    val t = refused("G7", ifThere(1, 2), ifThere(2, 1))()
    assert(t.ids().intersect(Seq(1L, 2L)) === Seq(1L))
  }

  test("[G7] a MERGE whose source is a view of the target conflicts") {
    val t = table()
    spark.sql(s"CREATE OR REPLACE TEMP VIEW rlc_gate_view AS SELECT id AS k FROM ${t.name}")
    val a = t.begin("MERGE INTO {t} USING (SELECT k FROM rlc_gate_view WHERE k = 1) s " +
      "ON id = s.k WHEN MATCHED THEN DELETE")
    t.run(delete(2))
    t.conflict[ConcurrentAppendException](a)
    assertRefused(a, "G7")
  }

  test("[G7] a MERGE whose source is cached conflicts") {
    val t = table()
    spark.sql(s"CREATE OR REPLACE TEMP VIEW rlc_gate_cached AS SELECT id AS k FROM ${t.name}")
    spark.sql("CACHE TABLE rlc_gate_cached")
    try {
      val a = t.begin("MERGE INTO {t} USING (SELECT k FROM rlc_gate_cached WHERE k = 1) s " +
        "ON id = s.k WHEN MATCHED THEN DELETE")
      t.run(delete(2))
      t.conflict[ConcurrentAppendException](a)
      assertRefused(a, "G7")
    } finally spark.sql("UNCACHE TABLE rlc_gate_cached")
  }

  test("[G7] a MERGE whose source is the target's change feed conflicts") {
    refused("G7", Statement("MERGE from the change feed", (session, name) => {
      session.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 0)
        .load(Statement.pathOf(name)).filter("id = 1").selectExpr("id AS k")
        .createOrReplaceTempView("rlc_gate_feed")
      session.sql(s"MERGE INTO $name USING rlc_gate_feed s ON id = s.k " +
        "WHEN MATCHED THEN DELETE").collect()
    }), delete(2))(TableSpec().cdf)
  }

  test("[G7] a MERGE whose source reads the target's files as Parquet conflicts") {
    refused("G7", Statement("MERGE from Parquet", (session, name) => {
      session.sql(s"MERGE INTO $name USING (SELECT id AS k FROM " +
        s"parquet.`${Statement.pathOf(name)}/*.parquet` WHERE id = 1) s ON id = s.k " +
        "WHEN MATCHED THEN DELETE").collect()
    }), delete(2))()
  }

  // ---- G8

  test("[S1] [G8] a conditional upsert conflicts with a DELETE of a row it matched and left") {
    val t = refused("G8", merge("(1, 'no'), (2, 'upd'), (100, 'no')",
      "WHEN MATCHED AND f = 'upd' THEN UPDATE SET r = 'US' " +
        "WHEN NOT MATCHED THEN INSERT (id, r) VALUES (k, 'EU')"),
      "DELETE FROM {t} WHERE r = 'EU' AND id IN (1, 100)")(regions)
    assert(t.rows() === Seq("[0,EU]", "[2,EU]", "[3,EU]"))
  }

  test("[trap 1] [G8] a conditional delete with insert conflicts with a DELETE of a matched row") {
    val t = refused("G8", merge("(1, ''), (2, ''), (3, '')",
      "WHEN MATCHED AND k = 2 THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (k)"),
      delete(1, 3))(TableSpec(files = Seq("SELECT id FROM VALUES (1L), (2L), (9L) AS x(id)")))
    assert(t.ids() === Seq(2, 9))
  }

  private val upsert = "WHEN MATCHED THEN UPDATE SET v = -1 " +
    "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (k, -1)"

  test("[S2] [trap 2] [G8] an unconditional upsert commits beside a DELETE of unmatched rows") {
    val t = bothCommit(TableSpec(), merge("(1, ''), (100, '')", upsert), Seq(delete(5)))
    assert(t.rows().filter(_.endsWith(",-1]")) === Seq("[1,-1]", "[100,-1]"))
  }

  test("[S3] [G8] an unconditional upsert conflicts with a DELETE of a row it matched") {
    val t = refused("P5", merge("(1, ''), (100, '')", upsert), delete(1))()
    assert(t.ids() === Seq(0, 2, 3, 4, 5, 6, 7, 8, 9))
  }

  test("[S4] [G8] a MERGE that only inserts conflicts with a DELETE") {
    refused("G8", merge("(1, ''), (100, '')",
      "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (k, -1)"), delete(5))()
  }

  test("[S5] [G8] a MERGE whose last MATCHED clause has no condition commits beside a DELETE") {
    bothCommit(TableSpec(), merge("(1, 'upd'), (2, ''), (100, '')",
      "WHEN MATCHED AND f = 'upd' THEN UPDATE SET v = -1 WHEN MATCHED THEN DELETE " +
        "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (k, -1)"), Seq(delete(5)))
  }

  test("[S6] [G8] a conditional MERGE without insert commits beside a DELETE of a row it left") {
    bothCommit(TableSpec(), merge("(1, 'upd'), (2, '')",
      "WHEN MATCHED AND f = 'upd' THEN UPDATE SET v = -1"), Seq(delete(2)))
  }

  test("[S7] [G8] a MERGE that deletes rows not matched by the source commits beside a DELETE") {
    bothCommit(TableSpec(), mergeFrom("SELECT id AS k FROM range(8)",
      "WHEN NOT MATCHED BY SOURCE AND id = 8 THEN DELETE"), Seq(delete(9)))
  }

  test("[S8] [G8] NOT MATCHED BY SOURCE beside a bare NOT MATCHED conflicts with a DELETE") {
    refused("G8", mergeFrom("SELECT id AS k FROM range(8)",
      "WHEN NOT MATCHED THEN INSERT (id, v) VALUES (k, -1) " +
        "WHEN NOT MATCHED BY SOURCE AND id = 8 THEN DELETE"), delete(5))()
  }

  // ---- G9, G10, and what Delta decides before

  test("[G9] a statement during which the target is read once more conflicts") {
    val reads = new AtomicInteger
    val t = table()
    val name = t.name
    // Evaluated on the driver when the plan is optimised, inside the transaction.
    spark.udf.register("rlc_peek", (k: Long) => {
      reads.incrementAndGet()
      SparkSession.active.sql(s"SELECT id FROM $name WHERE id = 3").count() * 0 + k
    })
    val a = t.begin("MERGE INTO {t} USING (SELECT rlc_peek(k) AS k FROM VALUES (1L) AS x(k)) s " +
      "ON id = s.k WHEN MATCHED THEN DELETE")
    assume(reads.get() > 0)
    t.run(delete(2))
    t.conflict[ConcurrentAppendException](a)
    assertRefused(a, "G9")
  }

  test("[S56] [trap 16] [G10] without data skipping a DML reads the whole table and conflicts") {
    val t = table()
    withConf("spark.databricks.delta.stats.skipping" -> "false") {
      val a = t.begin(delete(1))
      t.run(delete(2))
      t.conflict[ConcurrentAppendException](a)
      assertRefused(a, "G10")
    }
    t.check(CheckOptions.winnersOnly)
  }

  test("[trap 16] [P3] a DELETE of everything conflicts with any DELETE") {
    val t = loserAborts[ConcurrentAppendException](
      TableSpec(), "DELETE FROM {t}", Seq(delete(2)), refusedBy = "P3")
    assert(t.ids().size === 9)
  }

  test("[S57] two statements of one application transaction conflict as before") {
    def as(version: Int)(s: String): Statement = Statement(s"$s as $version", (session, name) =>
      session.sql(s.replace("{t}", name)).collect())
    val t = table()
    val app = "spark.databricks.delta.write.txnAppId"
    val number = "spark.databricks.delta.write.txnVersion"
    withConf(app -> "rlc", number -> "1") {
      val a = t.begin(as(1)("DELETE FROM {t} WHERE id = 1"))
      withConf(app -> "rlc", number -> "2") {
        t.run(as(2)("DELETE FROM {t} WHERE id = 2"))
      }
      t.conflict[ConcurrentTransactionException](a)
    }
    t.check(CheckOptions.winnersOnly)
  }

  test("[S64] an OPTIMIZE that lost to a DELETE retries or fails as it does on stock") {
    // OPTIMIZE starts its transactions itself and is none of ours: both outcomes must be the same.
    def outcome(session: SparkSession): (Boolean, Seq[Long]) = {
      val t = new TestTable(twoFiles, session)
      val a = new Running(t, "OPTIMIZE {t}", session).start()
      if (a.isHeld) t.run(delete(1), session)
      val end = a.finish()
      (end.error.isEmpty, t.ids())
    }
    assert(outcome(RlcSession.on) === outcome(RlcSession.off))
  }
}

object TransactionGateSuite {
  /** Static, as a function that is shipped to tasks counts in a copy of what it holds. */
  val calls = new AtomicInteger
}
