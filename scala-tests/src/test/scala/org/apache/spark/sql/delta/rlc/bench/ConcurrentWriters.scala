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

import java.util.concurrent.{ConcurrentLinkedQueue, CyclicBarrier, Executors, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import io.github.deltarlc.{ResolutionListener, RowLevelConcurrency}
import io.delta.exceptions.DeltaConcurrentModificationException

import org.apache.spark.sql.SparkSession

/**
 * What a number of writers went through together.
 *
 * @param millis from the common start to the last commit
 * @param attempts statements that were started, also those that failed and were started again
 * @param conflicts of those, by the exception they ended in
 * @param merges passes of conflict resolution that merged files
 * @param commits when each statement was through, in milliseconds from the start, ascending
 */
final case class WritersOutcome(
    millis: Double,
    attempts: Int,
    conflicts: Map[String, Int],
    merges: Int,
    commits: Seq[Double])

/** Runs statements as concurrent jobs do: each writer its own in turn, again after a conflict. */
object ConcurrentWriters {

  /** @param statements of each writer, in their order */
  def run(session: SparkSession, statements: Seq[Seq[String]]): WritersOutcome = {
    val attempts = new AtomicInteger
    val merges = new AtomicInteger
    val conflicts = new ConcurrentLinkedQueue[String]
    val commits = new ConcurrentLinkedQueue[Long]
    val listener: ResolutionListener = r => if (r.merged.nonEmpty) merges.incrementAndGet()
    val start = new CyclicBarrier(statements.size + 1)
    val pool = Executors.newFixedThreadPool(statements.size)
    RowLevelConcurrency.addListener(listener)
    try {
      val done = statements.map { own =>
        pool.submit[Unit] { () =>
          start.await()
          own.foreach { statement =>
            var committed = false
            while (!committed) {
              attempts.incrementAndGet()
              try {
                session.sql(statement).collect()
                committed = true
                commits.add(System.nanoTime())
              } catch {
                case e: DeltaConcurrentModificationException =>
                  conflicts.add(e.getClass.getSimpleName)
              }
            }
          }
        }
      }
      start.await()
      val began = System.nanoTime()
      done.foreach(_.get(30, TimeUnit.MINUTES))
      val millis = commits.asScala.toSeq.sorted.map(at => (at - began) / 1e6)
      WritersOutcome(millis.lastOption.getOrElse(0.0), attempts.get,
        conflicts.asScala.toSeq.groupMapReduce(identity)(_ => 1)(_ + _), merges.get, millis)
    } finally {
      RowLevelConcurrency.removeListener(listener)
      pool.shutdownNow()
    }
  }
}
