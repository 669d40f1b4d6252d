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

import java.util.Locale

import scala.util.Try

import org.apache.spark.sql.delta.rlc.ResolutionPolicy

/**
 * `HistoriesMain COUNT [--seed N] [--compare N] [--stock] [--mutants]`: runs COUNT random histories
 * from seed N on and compares each with a serial run.
 *
 *  - `--compare N`: every Nth history runs on stock Delta as well, for the numbers; 10 by default,
 *    0 for never
 *  - `--stock`: all of them run on stock Delta alone
 *  - `--mutants`: takes the safeguards out one at a time, and runs histories, COUNT at most, until
 *    the checker finds each missing
 *
 * The exit status is 0 when all histories agree or, with `--mutants`, when every mutant was found.
 */
object HistoriesMain {

  private final case class Options(
      count: Int = 1000,
      seed: Long = 1,
      compare: Int = 10,
      stock: Boolean = false,
      mutants: Boolean = false,
      only: Option[String] = None)

  def main(args: Array[String]): Unit = {
    val status = Try(parse(args.toList, Options())).fold(
      e => {
        say(s"${e.getMessage}\nusage: COUNT [--seed N] [--compare N] [--stock] [--mutants [NAME]]")
        2
      },
      o => if (o.mutants) runMutants(o) else runCount(o))
    // Spark's threads are not all daemons.
    System.exit(status)
  }

  private def parse(args: List[String], o: Options): Options = args match {
    case "--seed" :: n :: rest => parse(rest, o.copy(seed = n.toLong))
    case "--compare" :: n :: rest => parse(rest, o.copy(compare = n.toInt))
    case "--stock" :: rest => parse(rest, o.copy(stock = true))
    case "--mutants" :: name :: rest if !name.startsWith("-") && name.toIntOption.isEmpty =>
      parse(rest, o.copy(mutants = true, only = Some(name)))
    case "--mutants" :: rest => parse(rest, o.copy(mutants = true))
    case n :: rest if n.toIntOption.isDefined => parse(rest, o.copy(count = n.toInt))
    case Nil => o
    case other :: _ => throw new IllegalArgumentException(s"unknown argument $other")
  }

  private def runCount(o: Options): Int = {
    val lab = new Lab(flag = !o.stock)
    val campaign = new Campaign(lab, new Lab(flag = false))
    val started = System.nanoTime()
    // What ran so far is worth knowing when it is stopped from outside.
    val summary = new Thread(() => say(campaign.statistics.text))
    Runtime.getRuntime.addShutdownHook(summary)
    val failed = campaign.run(o.seed, o.count, if (o.stock) 0 else o.compare,
      progress = done => if (done % 25 == 0 || done == o.count) {
        say(String.format(Locale.ROOT,
          "%6d of %d histories, %d disagree, %d of %d conflicts merged, %d s",
          done, o.count, campaign.statistics.disagreements, campaign.statistics.merged,
          campaign.statistics.conflicts, (System.nanoTime() - started) / 1000000000L))
      })
    Runtime.getRuntime.removeShutdownHook(summary): Unit
    failed.foreach { case (seed, report) =>
      say(FailureText(report, Some(seed)))
      say("---- made smaller:")
      say(FailureText(campaign.shrink(report), Some(seed)))
    }
    say(campaign.statistics.text)
    say(if (failed.isEmpty) "all histories agree with a serial run in commit order"
      else s"${failed.size} histories do not agree; seeds ${failed.map(_._1).mkString(", ")}")
    if (failed.isEmpty) 0 else 1
  }

  private def runMutants(o: Options): Int = {
    val lab = new Lab(flag = true)
    val results = Mutants.all.filter(m => o.only.forall(_ == m.name)).map { mutant =>
      ResolutionPolicy.withMutant(mutant.policy) {
        val campaign = new Campaign(lab, lab)
        var ran = 0
        val failed = campaign.run(o.seed, o.count, stopAfter = 1, progress = done => {
          ran = done
          if (done % 20 == 0) say(s"  ${mutant.name}: $done histories")
        })
        failed.headOption match {
          case Some((seed, report)) =>
            say(s"${mutant.name} (${mutant.what}): found after $ran histories, seed $seed")
            say(FailureText(campaign.shrink(report, tries = 15), None))
          case None => say(s"${mutant.name} (${mutant.what}): NOT found in $ran histories")
        }
        mutant.name -> failed.headOption.map(_ => ran)
      }
    }
    say(results.map { case (name, ran) =>
      String.format("%-26s %s", name, ran.fold("not found")(n => s"found after $n histories"))
    }.mkString("\n"))
    if (results.forall(_._2.isDefined)) 0 else 1
  }

  // scalastyle:off println
  private def say(text: String): Unit = println(text)
}
