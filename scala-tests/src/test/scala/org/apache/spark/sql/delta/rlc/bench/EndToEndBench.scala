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

import java.nio.file.{Files, Path}

import org.apache.spark.sql.delta.rlc.harness.{RlcSession, TableFiles}

/**
 * How long K writers of some disjoint DELETEs each take on one file of a million rows: with
 * merging, on stock Delta with a retry after every conflict, and on partitions of their own, where
 * nobody ever conflicts, as the limit.
 *
 * Arguments: rounds (default 3); the writers are 2, 4 and 8. All three kinds run in every round,
 * one after the other, and the medians are compared.
 */
object EndToEndBench {

  private val ROWS = 1000000L
  private val STATEMENTS = 4

  private sealed abstract class Kind(val merging: Boolean, val shared: Boolean)
  private case object Stock extends Kind(merging = false, shared = true)
  private case object Merging extends Kind(merging = true, shared = true)
  private case object Apart extends Kind(merging = false, shared = false)

  def main(args: Array[String]): Unit = {
    val rounds = args.headOption.fold(3)(_.toInt)
    RlcSession.generateCode()
    run(Merging, 2) // warms up the JVM and Spark
    val report = new BenchReport("end-to-end", Seq("writers", "rounds", "commits", "stock attempts",
      "merging attempts", "merges", "stock ms", "merging ms", "limit ms", "stock/limit",
      "merging/limit"))
    Seq(2, 4, 8).foreach { writers =>
      val outcomes = Seq.fill(rounds)(
        Seq[Kind](Stock, Merging, Apart).map(kind => kind -> run(kind, writers)).toMap)
      def median(f: Map[Kind, WritersOutcome] => Double): Double =
        outcomes.map(f).sorted.apply(rounds / 2)
      val stock = median(_(Stock).millis)
      val merging = median(_(Merging).millis)
      val limit = median(_(Apart).millis)
      report.add(writers, rounds, writers * STATEMENTS,
        median(_(Stock).attempts), median(_(Merging).attempts), median(_(Merging).merges),
        stock, merging, limit,
        median(o => o(Stock).millis / o(Apart).millis),
        median(o => o(Merging).millis / o(Apart).millis))
    }
    report.save()
    RlcSession.on.stop()
  }

  private def run(kind: Kind, writers: Int): WritersOutcome = {
    val dir = Files.createTempDirectory(RlcSession.root, "end-to-end")
    create(dir, if (kind.shared) 1 else writers)
    val session = if (kind.merging) RlcSession.on else RlcSession.off
    try {
      val outcome = ConcurrentWriters.run(session, (0 until writers).map { writer =>
        (0 until STATEMENTS).map { i =>
          val part = if (kind.shared) 0 else writer
          val id = (writer * STATEMENTS + i) * (ROWS / (8 * STATEMENTS))
          s"DELETE FROM delta.`$dir` WHERE part = $part AND id = $id"
        }
      })
      val left = session.table(s"delta.`$dir`").count()
      val expected = ROWS * (if (kind.shared) 1 else writers) - writers * STATEMENTS
      require(left == expected, s"$kind left $left rows of $expected")
      outcome
    } finally TableFiles.delete(dir)
  }

  /** One file of a million rows in each of `parts` partitions. */
  private def create(dir: Path, parts: Int): Unit = {
    val spark = RlcSession.off
    spark.sql(s"CREATE TABLE delta.`$dir` (id BIGINT, v STRING, part INT) USING delta " +
      "PARTITIONED BY (part) TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
    (0 until parts).foreach { part =>
      spark.range(0, ROWS, 1, 1)
        .selectExpr("id", "cast(id * 7919 as string) AS v", s"$part AS part")
        .write.format("delta").mode("append").save(dir.toString)
    }
  }
}
