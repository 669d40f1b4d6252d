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

import java.nio.file.Path

import scala.util.{Failure, Success, Try}

import org.apache.spark.sql.SparkSession

/** What a history that agrees with a serial run was like. */
final case class Agreement(
    commits: Int,
    raced: Int,
    stockHoles: Int,
    reordered: Boolean)

/** Where a history and every serial run that is allowed differ. */
final case class Disagreement(kind: String, detail: String)

/**
 * What a committed table shows, version by version from the last one before the race.
 *
 * @param rows of each version
 * @param feed change rows of each version, or None where the table keeps no feed
 * @param tracked whether row ids are kept at each version
 */
final case class Observed(
    firstVersion: Long,
    rows: Vector[Vector[StoredRow]],
    feed: Option[Map[Long, Vector[Change]]],
    tracked: Vector[Boolean]) {

  def lastVersion: Long = firstVersion + rows.size - 1
  def values(version: Long): Vector[Record] = rows((version - firstVersion).toInt).map(_.values)

  /** What a version changed: its feed, or else the difference to the version before. */
  def changes(version: Long): Vector[Change] = feed match {
    case Some(f) => f.getOrElse(version, Vector.empty)
    case None => Change.net(values(version - 1), values(version))
  }
}

object Observed {

  /**
   * Reads all versions by the protocol and the feed through Delta.
   *
   * @param twice whether Delta reads the last version as well, from scratch
   */
  def read(
      session: SparkSession, dir: Path, base: Long, cdf: Boolean, twice: Boolean): Observed = {
    val log = new TableLog(dir)
    val states = log.replay().drop(base.toInt)
    val rows = states.map(log.rows)
    states.foreach(s => checkChecksum(log, s))

    if (twice) checkLast(session, dir, states.last, rows.last)
    val feed = if (!cdf || states.size < 2) None else Some {
      session.read.format("delta").option("readChangeFeed", "true")
        .option("startingVersion", base + 1).load(dir.toString)
        .select((Columns.names ++ Seq("_change_type", "_commit_version"))
          .map(org.apache.spark.sql.functions.col): _*)
        .collect().toVector
        .map(r => r.getLong(Columns.names.size + 1) ->
          Change(r.getString(Columns.names.size), Lab.record(r)))
        .groupMap(_._1)(_._2)
    }
    Observed(base, rows, feed, states.map(_.rowTracking))
  }

  private def checkLast(
      session: SparkSession, dir: Path, state: VersionState, rows: Vector[StoredRow]): Unit = {
    Lab.forget(dir)
    val tracked = state.rowTracking
    val name = s"delta.`$dir`"
    val seen = session.sql(
      s"SELECT ${Columns.names.mkString(", ")}${if (tracked) ", _metadata.row_id" else ""} " +
        s"FROM $name").collect().toVector.map { r =>
      StoredRow(Lab.record(r), if (tracked) Some(r.getLong(Columns.names.size)) else None)
    }
    val expected = if (tracked) rows else rows.map(_.copy(rowId = None))
    if (!Bag.equal(seen, expected)) {
      throw new BrokenLog(state.version,
        s"Delta reads other rows than the log has. ${Bag.diff(expected, seen)}")
    }
  }

  /** The checksum file, which Delta writes out of the actions alone, against the replay. */
  private def checkChecksum(log: TableLog, s: VersionState): Unit =
    log.checksum(s.version).foreach { crc =>
      val cards = s.live.values.flatMap(a => Option(a.get("deletionVector")))
        .map(_.get("cardinality").asLong).toVector
      val counts = Seq(
        "numFiles" -> s.live.size.toLong,
        "tableSizeBytes" -> s.live.values.map(_.get("size").asLong).sum,
        "numDeletionVectorsOpt" -> cards.size.toLong,
        "numDeletedRecordsOpt" -> cards.sum)
      counts.foreach { case (field, expected) =>
        Option(crc.get(field)).map(_.asLong).filter(_ != expected).foreach { v =>
          throw new BrokenLog(s.version, s"checksum file: $field is $v, not $expected")
        }
      }
    }
}

/** Multisets. */
private[histories] object Bag {
  def equal[T](a: Seq[T], b: Seq[T]): Boolean = a.size == b.size && a.diff(b).isEmpty
  def diff[T](expected: Seq[T], actual: Seq[T]): String =
    s"missing: ${show(expected.diff(actual))}; too many: ${show(actual.diff(expected))}"
  private def show(xs: Seq[Any]): String = if (xs.isEmpty) "none" else xs.map(text).mkString(", ")
  private def text(x: Any): String = x match {
    case StoredRow(v, id) => text(v) + id.fold("")(i => s" row id $i")
    case Change(kind, v) => s"$kind ${text(v)}"
    case v: Vector[_] => v.map(text).mkString("(", " ", ")")
    case Null => "null"
    case Num(n) => n.toString
    case Str(s) => s
    case other => other.toString
  }
}

private final class Differs(val what: Disagreement) extends RuntimeException(what.toString)

/**
 * Compares a history with serial runs of its committed statements on the model.
 *
 * A Serializable table allows one order, that of the commits. A WriteSerializable one also allows
 * that a blind append comes later than a statement which committed after it without having seen it.
 */
final class Checker(
    table: Table,
    history: Vector[Vector[ModelRow]],
    restoreTo: Int => Long,
    done: Vector[Done],
    observed: Observed) {

  private val base = observed.firstVersion
  private val owners: Map[Long, Done] =
    done.flatMap(d => d.ending match {
      case Committed(vs) => vs.map(_ -> d)
      case _ => Vector.empty
    }).toMap

  private var nextId = (0L +: history.flatten.map(_.rid)).max
  private def fresh(): Long = { nextId += 1; nextId }

  def check(): Either[Disagreement, Agreement] =
    Try {
      done.foreach(checkEnding)
      checkFeedAgainstRows()
      val (holes, reordered) =
        if (table.writeSerializable) (0, checkSomeOrder()) else (checkCommitOrder(), false)
      val commits = owners.toVector
      Agreement(
        commits = commits.size,
        raced = commits.count { case (v, d) => d.readVersions.lastOption.exists(_ + 1 < v) },
        stockHoles = holes,
        reordered = reordered)
    } match {
      case Success(a) => Right(a)
      case Failure(d: Differs) => Left(d.what)
      case Failure(e: ModelException) => Left(Disagreement("model", e.getMessage))
      case Failure(e) => throw e
    }

  private def differ(kind: String, detail: String): Nothing =
    throw new Differs(Disagreement(kind, detail))

  private def env(reads: Vector[ModelRow]): Env = Env(
    Tables(reads.map(_.values), Lab.otherRows),
    back => history(restoreTo(back).toInt),
    () => fresh())

  private def checkEnding(d: Done): Unit = d.ending match {
    case Committed(vs) if d.statement.isDml && vs.size > 1 =>
      differ("versions", s"${d.statement} committed $vs")
    case _ =>
  }

  /** Applying a version's feed to the rows before it gives the rows after it. */
  private def checkFeedAgainstRows(): Unit = observed.feed.foreach { _ =>
    (base + 1 to observed.lastVersion).foreach { v =>
      val byRows = Change.net(observed.values(v - 1), observed.values(v))
      val byFeed = Change.net(observed.changes(v))
      if (!Bag.equal(byRows, byFeed)) {
        differ("feed", s"version $v: rows and change feed differ. ${Bag.diff(byRows, byFeed)}")
      }
    }
  }

  private def sameChanges(s: Statement, expected: Vector[Change], v: Long): Boolean = {
    val exact = observed.feed.isDefined && !s.isInstanceOf[Restore]
    if (exact) Bag.equal(expected, observed.changes(v))
    else Bag.equal(Change.net(expected), Change.net(observed.changes(v)))
  }

  /** Every version against the model. Returns how often stock's own hole shows. */
  private def checkCommitOrder(): Int = {
    var states = Vector(history.last)
    var holes = 0
    val ids = new RowIds
    compareRows(base, states.last)
    ids.check(base, states.last)
    (base + 1 to observed.lastVersion).foreach { v =>
      val d = owners.getOrElse(v, differ("versions", s"nobody committed version $v"))
      val serial = d.statement.run(states.last, env(states.last))
      def fits(e: Effect): Boolean =
        Bag.equal(e.rows.map(_.values), observed.values(v)) &&
          sameChanges(d.statement, e.changes, v)
      // Stock Delta pins a subquery in SET or in a MERGE action before the transaction starts and
      // never checks what it read. That is stock's to mend; but the product must not widen it.
      val hole =
        if (!fits(serial) && d.statement.untrackedSelfRead && !d.resolvedSomething) {
          val atRead = states((d.readVersions.last - base).toInt)
          Some(d.statement.run(states.last, env(atRead))).filter(fits)
        } else None
      holes += hole.size
      val effect = hole.getOrElse(serial)
      compareRows(v, effect.rows)
      if (!sameChanges(d.statement, effect.changes, v)) {
        differ("changes", s"version $v, ${d.statement}: " +
          Bag.diff(effect.changes, observed.changes(v)))
      }
      ids.check(v, effect.rows)
      states :+= effect.rows
    }
    done.foreach { d =>
      if (d.ending == NothingToDo && d.statement.isDml) {
        val atRead = states((d.readVersions.lastOption.getOrElse(base) - base).toInt)
        val effect = d.statement.run(atRead, env(atRead))
        if (effect.changes.nonEmpty) {
          differ("nothing", s"${d.statement} did nothing, not ${effect.changes}")
        }
      }
    }
    holes
  }

  private def compareRows(v: Long, expected: Vector[ModelRow]): Unit = {
    val (want, got) = (expected.map(_.values), observed.values(v))
    if (!Bag.equal(want, got)) {
      val who = owners.get(v).fold("before the race")(d => d.statement.toString)
      differ("rows", s"version $v, $who: ${Bag.diff(want, got)}")
    }
  }

  /** Row ids: each row keeps its own for as long as it lives, and nobody ever gets a used one. */
  private final class RowIds {
    private var known = Map.empty[Long, Long]

    def check(v: Long, expected: Vector[ModelRow]): Unit =
      if (observed.tracked((v - base).toInt)) {
        val actual = observed.rows((v - base).toInt)
        val ids = actual.flatMap(_.rowId)
        if (ids.size < actual.size) differ("row ids", s"version $v: a row without an id: $actual")
        if (ids.distinct.size < ids.size) differ("row ids", s"version $v: an id twice: $actual")
        val (old, young) = expected.partition(r => known.contains(r.rid))
        val want = old.map(r => StoredRow(r.values, Some(known(r.rid))))
        val lost = want.diff(actual)
        if (lost.nonEmpty) {
          differ("row ids", s"version $v: ${Bag.diff(want, actual)}")
        }
        var left = actual.diff(want)
        young.foreach { r =>
          val mine = left.find(_.values == r.values).get
          left = left.diff(Seq(mine))
          if (known.values.exists(mine.rowId.contains)) {
            differ("row ids", s"version $v: $mine has the id of another row")
          }
          known += r.rid -> mine.rowId.get
        }
      }
  }

  /** Looks for an allowed order that explains the final rows and every version's changes. */
  private def checkSomeOrder(): Boolean = {
    final case class Commit(version: Long, done: Done) {
      def blind: Boolean = done.statement.isInstanceOf[Insert]
      def sees(other: Commit): Boolean = done.readVersions.last >= other.version
      def mayFollow(left: Vector[Commit]): Boolean = left.forall { c =>
        c.version >= version || (c.blind && !sees(c))
      }
    }
    val commits = (base + 1 to observed.lastVersion).toVector.map { v =>
      Commit(v, owners.getOrElse(v, differ("versions", s"nobody committed version $v")))
    }
    compareRows(base, history.last)

    def search(state: Vector[ModelRow], left: Vector[Commit], moved: Boolean): Option[Boolean] =
      if (left.isEmpty) {
        if (Bag.equal(state.map(_.values), observed.values(observed.lastVersion))) Some(moved)
        else None
      } else {
        left.filter(_.mayFollow(left)).iterator.flatMap { c =>
          val effect = c.done.statement.run(state, env(state))
          if (!sameChanges(c.done.statement, effect.changes, c.version)) None
          else search(effect.rows, left.filter(_ ne c), moved || c.version > left.head.version)
        }.nextOption()
      }
    search(history.last, commits, moved = false).getOrElse {
      val serial = commits.foldLeft(history.last)((rows, c) =>
        c.done.statement.run(rows, env(rows)).rows)
      differ("order", "no allowed order gives the final rows and changes. In commit order " +
        Bag.diff(serial.map(_.values), observed.values(observed.lastVersion)))
    }
  }
}
