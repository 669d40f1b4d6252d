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

package org.apache.spark.sql.delta.rlc.histories

import java.util.concurrent.{Callable, Executors, TimeUnit}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicLong}

/** Runs the cases of many seeds, some at a time. */
final class Campaign(lab: Lab, stock: => Lab, threads: Int = Campaign.threads) {

  private val histories = new Histories(lab)
  private lazy val stockHistories = new Histories(stock)

  val statistics = new Statistics

  /**
   * Runs seeds from `first` on, `count` of them, until `stop` says so.
   *
   * @param compareEvery how often a case runs on stock Delta as well; 0 for never
   * @param progress called after each case with the number of cases that are done
   * @return the failing cases with their seeds, in the order of the seeds
   */
  def run(
      first: Long,
      count: Int,
      compareEvery: Int = 0,
      stopAfter: Int = 3,
      progress: Int => Unit = _ => ()): Vector[(Long, Report)] = {
    val next = new AtomicLong(first)
    val enough = new AtomicBoolean
    var failed = Vector.empty[(Long, Report)]
    var done = 0
    val pool = Executors.newFixedThreadPool(threads)
    val work: Callable[Unit] = () => {
      var seed = next.getAndIncrement()
      while (seed < first + count && !enough.get) {
        val history = Campaign.draw(seed)
        val report = histories.run(history, twice = seed % 4 == 0)
        val off = if (compareEvery > 0 && seed % compareEvery == 0) Some(stockHistories.run(history))
          else None
        synchronized {
          done += 1
          statistics.add(report)
          off.foreach { o =>
            statistics.compare(report, o)
            if (o.result.isLeft) failed :+= seed -> o
          }
          if (report.result.isLeft) failed :+= seed -> report
          if (failed.size >= stopAfter) enough.set(true)
          progress(done)
        }
        seed = next.getAndIncrement()
      }
    }
    try Seq.fill(threads)(pool.submit(work)).foreach(_.get())
    finally {
      pool.shutdown()
      pool.awaitTermination(1, TimeUnit.MINUTES)
      TableLog.clearCache()
    }
    failed.sortBy(_._1)
  }

  /** A smaller case that fails in the same way, run once more. */
  def shrink(report: Report, tries: Int = 150): Report = {
    val kind = report.result.swap.toOption.map(_.kind)
    var best = report
    new Shrinker(c => {
      val r = histories.run(c)
      val same = r.result.swap.toOption.map(_.kind) == kind
      if (same) best = r
      same
    }, tries).shrink(report.history)
    best
  }
}

object Campaign {
  /** Two cases at a time on two cores: a case waits for files and for single tasks a lot. */
  val threads: Int = 2

  /** How often a case has the shape of a documented counterexample. */
  private val directed = 0.2

  def draw(seed: Long): Case = new Generator(seed, directed).next()
}
