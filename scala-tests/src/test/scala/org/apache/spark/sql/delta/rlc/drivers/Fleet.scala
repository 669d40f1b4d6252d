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
package org.apache.spark.sql.delta.rlc.drivers

import java.nio.file.Paths

import io.github.deltarlc.RowLevelConcurrency
import io.github.deltarlc.jni.NativeBridge

import org.apache.spark.sql.delta.rlc.harness.{ChildJvm, RlcSession}
import org.apache.spark.sql.delta.rlc.histories._

/**
 * What a fleet did.
 *
 * @param attempts statements that drivers ran
 * @param commits versions they made
 * @param conflicts statements that ended in one of Delta's conflicts
 * @param nothing statements that had no row to change
 * @param resolved passes of conflict resolution that our drivers won
 * @param filesMerged data files that got the union of two deletion vectors
 */
final case class FleetReport(
    attempts: Int,
    commits: Int,
    conflicts: Int,
    nothing: Int,
    resolved: Long,
    filesMerged: Long) {
  def text: String = s"$attempts attempts: $commits commits, $conflicts conflicts, $nothing had " +
    s"no row to change; $resolved passes resolved, $filesMerged files merged"
}

/**
 * Several JVMs, each a Spark driver of its own, run random statements on one table at once.
 * Afterwards nothing that was acknowledged may be missing, nothing else may be there, and every
 * version must have the rows and the change feed of the statements run one after the other.
 */
object Fleet {
  import Work._

  /** Runs drivers of these kinds on a table of `rows` rows until `enough` returns, and judges. */
  def run(kinds: Seq[Kind], rows: Int, seed: Long)(enough: Seq[ChildJvm] => Unit): FleetReport = {
    val table = Table(
      Vector.tabulate(rows)(i => Vector(Num(i.toLong), Num(i % 2L), Num(i * 10L), Str("a")))
        .grouped(rows / 4).toVector,
      setup = Vector(Delete(Some(In(Col("id"), Vector(Num(0), Num(rows - 1L)))))),
      cdf = true)
    val template = Lab.template(table)
    val dir = Lab.copy(template)
    val drivers = kinds.zipWithIndex.map { case (kind, i) =>
      new ChildJvm(
        DriverMain.getClass.getName.stripSuffix("$"),
        Seq(kind.name, i.toString, seed.toString, rows.toString, dir.toString, Lab.otherName),
        without = if (kind.hasJar) Nil else ours)
    }
    val (outputs, seen) =
      try {
        drivers.foreach(_.await(mark + "READY"))
        drivers.foreach(_.say("GO"))
        // They meet: all have read one version, and commit one after the other, the last one first.
        drivers.foreach(_.await(mark + "HELD"))
        drivers.reverse.foreach { driver =>
          driver.say("COMMIT")
          driver.await(mark) // whatever it came to
        }
        drivers.foreach(_.say("GO ON"))
        enough(drivers)
        drivers.foreach(_.say("STOP"))
        drivers.foreach(_.await(mark + "DONE"))
        drivers.foreach(_.say("ROWS"))
        val seen = drivers.map(_.await(mark + "ROWS "))
        (drivers.map(_.output.filter(_.startsWith(mark)).map(_.stripPrefix(mark))), seen)
      } finally drivers.foreach(_.kill())
    val report = check(table, template, new TableLog(dir), outputs, seed, rows) {
      Observed.read(RlcSession.off, dir, template.lastVersion, cdf = true, twice = true)
    }
    // The model has just said that this is right; the driver of each kind reads the same.
    val expected = rowsOf(RlcSession.off, s"delta.`$dir`")
    kinds.zip(seen).foreach { case (kind, rows) =>
      demand(rows == expected, s"a driver of kind ${kind.name} reads $rows, not $expected", seed)
    }
    Lab.drop(dir)
    report
  }

  private def demand(condition: Boolean, what: => String, seed: Long): Unit =
    if (!condition) throw new AssertionError(s"$what (seed $seed)")

  /** Where our own classes and resources come from. */
  private def ours: Seq[String] =
    Seq(classOf[NativeBridge], RowLevelConcurrency.getClass).map { c =>
      Paths.get(c.getProtectionDomain.getCodeSource.getLocation.toURI).toString
    }

  private final case class Ended(how: String, tag: String, before: Long, after: Long)

  private def check(
      table: Table,
      template: Lab.Template,
      log: TableLog,
      outputs: Seq[Seq[String]],
      seed: Long,
      rows: Int)(
      observed: => Observed): FleetReport = {
    val ended = outputs.flatten.map(_.split(' ')).collect {
      case Array(how @ ("ACK" | "CONFLICT" | "FAILED"), tag, before, after) =>
        Ended(how, tag, before.toLong, after.toLong)
    }
    val statements: Map[String, Statement] = outputs.indices.flatMap { driver =>
      Work.statements(seed, driver, rows).take(ended.size).zipWithIndex
        .map { case (s, i) => tag(driver, i) -> s }
    }.toMap
    val versions = (template.lastVersion + 1 to log.lastVersion).toVector
    val infos = versions.map(v => log.actions(v).collectFirst { case ("commitInfo", c) => c }.get)
    val tags = infos.map(_.get("userMetadata").asText())

    // Acknowledged means committed, once, or without a row to change; and nothing else is there.
    def demand(condition: Boolean, what: => String): Unit = Fleet.demand(condition, what, seed)
    val twice = tags.diff(tags.distinct)
    demand(twice.isEmpty, s"statements that committed twice: $twice")
    val acknowledged = ended.filter(_.how == "ACK")
    val unknown = tags.toSet -- acknowledged.map(_.tag)
    demand(unknown.isEmpty, s"committed and not acknowledged: $unknown")
    val failed = ended.filter(_.how == "FAILED")
    demand(failed.isEmpty, s"neither committed nor a conflict: $failed")

    val done = versions.zip(infos).zip(tags).map { case ((v, info), tag) =>
      val read = info.get("readVersion").asLong()
      Done(statements(tag), Vector(read), Committed(Vector(v)), Vector.empty)
    }
    val compared =
      new Checker(table, template.history, template.restoreTo, done, observed).check()
    demand(compared.isRight, s"not what a serial run gives: $compared")

    val fresh = Iterator.from(-1, -1).map(_.toLong)
    def run(s: Statement, on: Vector[ModelRow]): Effect =
      s.run(on, Env(Tables(on.map(_.values), Lab.otherRows), _ => Vector.empty, () => fresh.next()))
    val states = done.scanLeft(template.history.last)((state, d) => run(d.statement, state).rows)
    val nothing = acknowledged.filterNot(e => tags.contains(e.tag))
    nothing.foreach { e =>
      val seen = (e.before to e.after).map(v => states((v - template.lastVersion).toInt))
      demand(seen.exists(run(statements(e.tag), _).changes.isEmpty),
        s"acknowledged and lost: ${e.tag}, ${statements(e.tag)}")
    }
    val counts = outputs.flatten.collect {
      case line if line.startsWith("COUNTS ") => line.split(' ').drop(1).map(_.toLong)
    }
    FleetReport(ended.size, versions.size, ended.count(_.how == "CONFLICT"), nothing.size,
      counts.map(_(0)).sum, counts.map(_(1)).sum)
  }
}

/**
 * `FleetMain [DRIVERS] [SECONDS] [--seed N] [--mixed]`: so many drivers (4) for so long (120 s);
 * with `--mixed` every third one has not our jar, and every third one the flag half of the time.
 */
object FleetMain {
  def main(args: Array[String]): Unit = {
    val seedAt = args.indexOf("--seed")
    val seed = if (seedAt < 0) 1L else args(seedAt + 1).toLong
    val numbers = args.zipWithIndex.collect {
      case (a, i) if a.toIntOption.isDefined && (seedAt < 0 || i != seedAt + 1) => a.toInt
    }
    val fleet = Seq.tabulate(numbers.headOption.getOrElse(4)) { i =>
      if (args.contains("--mixed")) Seq(Kind.On, Kind.Stock, Kind.Half)(i % 3) else Kind.On
    }
    val status =
      try {
        val seconds = numbers.lift(1).getOrElse(120)
        val report = Fleet.run(fleet, math.max(200, 4 * seconds * fleet.size), seed) { _ =>
          Thread.sleep(seconds * 1000L)
        }
        say(s"${fleet.map(_.name).mkString(", ")}, seed $seed: ${report.text}")
        say("nothing acknowledged is lost, and every version is what a serial run gives")
        0
      } catch {
        case e: AssertionError =>
          say(e.getMessage)
          1
      }
    System.exit(status)
  }

  // scalastyle:off println
  private def say(text: String): Unit = println(text)
}
