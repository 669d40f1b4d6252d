/*
 * Copyright 2026 The delta-rlc authors
 *
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

import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import io.github.deltarlc.Refusal
import io.github.deltarlc.jni.{DvError, DvRole, MergeRequest, MergeResponse, NativeBridge, NativeException, Verdict}
import org.apache.spark.sql.delta.actions.{AddFile, DeletionVectorDescriptor}

/**
 * One file that passed the structural rules.
 *
 * @param base the DV the loser read the file with, null for none
 * @param role what the loser did to it
 * @param live the file's entry after the last winner
 */
private[rlc] final case class SharedFile(
    path: String,
    base: DeletionVectorDescriptor,
    role: LoserRole,
    live: AddFile) {

  /** The loser's DV, null when it did not change the file. */
  def current: DeletionVectorDescriptor = role match {
    case LoserRole.Touched(_, added) => added.deletionVector
    case _ => null
  }

  /** The three sides of the comparison; None for a DV that is absent or empty. */
  val sides: Sides[Option[DeletionVectorDescriptor]] =
    Sides(base, current, live.deletionVector).map(Option(_).filter(WinnerChains.hasRows))

  def deletionVectors: Seq[DeletionVectorDescriptor] = sides.toSeq.flatten

  /** Without a base, whatever the winners took away is more than nothing: no byte has to be read. */
  def needsBytes: Boolean = current != null || WinnerChains.hasRows(base)
}

/** One thing for each of the three DVs of a file, in the order of the native request. */
private[rlc] final case class Sides[T](base: T, current: T, winner: T) {
  def map[U](f: T => U): Sides[U] = Sides(f(base), f(current), f(winner))
  def toSeq: Seq[T] = Seq(base, current, winner)
}

/** What the bits of a file say. */
private[rlc] sealed trait FileVerdict

private[rlc] object FileVerdict {
  /** Disjoint: the file gets the union. */
  final case class Merge(bitmap: MergedBitmap) extends FileVerdict
  /** Disjoint, and no row is left. */
  case object RemoveWhole extends FileVerdict
  /** The loser changed nothing, the winners only took rows away. */
  case object Keep extends FileVerdict
  /** Not proven; Delta's own checks decide. */
  final case class Refuse(refusal: Refusal) extends FileVerdict
}

/** What a pass read, for the report. */
private[rlc] final case class ReadStatistics(dvReads: Int, bytesRead: Long)

/**
 * Decides the shared files of a pass: reads the deletion vectors that are not at hand, and asks the
 * native library once for all of them.
 *
 * @param kept bitmaps of earlier passes by DV id; a DV never changes
 */
private[rlc] final class FileVerdicts(
    reader: DeletionVectorReader,
    settings: RowLevelConcurrencyConf.Settings,
    kept: mutable.Map[String, FileVerdicts.Slice]) {
  import FileVerdicts._

  private var statistics = ReadStatistics(0, 0L)

  /** What [[decide]] read. */
  def read: ReadStatistics = statistics

  /** A verdict for each of `files`, by path. */
  def decide(files: Seq[SharedFile], deadline: Deadline): Map[String, FileVerdict] = {
    val declared = files.map(file => file -> undeclared(file))
    val refused = declared.collect { case (file, Some(refusal)) =>
      file.path -> FileVerdict.Refuse(refusal)
    }
    val sound = declared.collect { case (file, None) => file }
    val (toRead, free) = sound.partition(_.needsBytes)
    refused.toMap ++ free.map(_.path -> FileVerdict.Keep) ++ decideByBits(toRead, deadline)
  }

  /** P6 as far as the log alone can answer it. */
  private def undeclared(file: SharedFile): Option[Refusal] = {
    val (own, rowsKnown) = file.role match {
      case LoserRole.Touched(_, added) => (Some(added), added.numPhysicalRecords.isDefined)
      case _ => (None, true)
    }
    val differs = own.exists { added =>
      added.size != file.live.size || added.partitionValues != file.live.partitionValues ||
        file.live.numPhysicalRecords.exists(n => !added.numPhysicalRecords.contains(n))
    }
    val badSize = file.deletionVectors.find(_.sizeInBytes <= 0)
    val why =
      if (!rowsKnown) Some("the number of rows is not known")
      else if (differs) Some("the winner's entry describes another file: size, partition or rows")
      else badSize.map(dv => s"the log declares ${dv.sizeInBytes} bytes for DV ${dv.uniqueId}")
    why.filter(_ => ResolutionPolicy.current.enforces("P6")).map(Refusal("P6", Some(file.path), _))
  }

  private def decideByBits(
      files: Seq[SharedFile], deadline: Deadline): Map[String, FileVerdict] = {
    val distinct = files.flatMap(_.deletionVectors).distinctBy(_.uniqueId)
    val needed = distinct.map(_.sizeInBytes.toLong).sum
    if (files.isEmpty) {
      Map.empty
    } else if (needed > settings.maxDvBytes) {
      refuseAll(files, "BUDGET", s"the pass needs $needed bytes of deletion vectors, " +
        s"${RowLevelConcurrencyConf.MAX_DV_BYTES.key} = ${settings.maxDvBytes}")
    } else {
      try {
        val request = new MergeRequest(files.size)
        try fillAndResolve(files, distinct, request, deadline)
        finally request.close()
      } catch {
        case e: ResolutionTimeout => refuseAll(files, "BUDGET", e.getMessage)
        case e: NativeException => refuseAll(files, "CODEC", e.getMessage)
      }
    }
  }

  private def refuseAll(
      files: Seq[SharedFile], rule: String, why: String): Map[String, FileVerdict] =
    files.map(file => file.path -> FileVerdict.Refuse(Refusal(rule, Some(file.path), why))).toMap

  private def fillAndResolve(
      files: Seq[SharedFile],
      distinct: Seq[DeletionVectorDescriptor],
      request: MergeRequest,
      deadline: Deadline): Map[String, FileVerdict] = {
    val (atHand, toRead) = distinct.partition(dv => kept.contains(dv.uniqueId))
    // The next pass compares with these again; the winners' it will not need.
    val worthKeeping =
      files.flatMap(f => f.sides.base ++ f.sides.current).map(_.uniqueId).toSet
    val found = new ConcurrentHashMap[String, Slice]
    val failures = reader.read(toRead, deadline) { (dv, bytes, start, _) =>
      found.put(dv.uniqueId, Slice(bytes, start))
    }
    atHand.foreach(dv => found.put(dv.uniqueId, kept(dv.uniqueId)))
    val onDisk = toRead.filter(dv => dv.isOnDisk && !failures.contains(dv.uniqueId))
    statistics = ReadStatistics(onDisk.size, onDisk.map(_.sizeInBytes.toLong).sum)
    val slices = found.asScala.toMap
    // What could not be read is left out of the request, and its files are refused.
    def unread(file: SharedFile): Option[String] =
      file.deletionVectors.map(_.uniqueId).collectFirst {
        case id if failures.contains(id) || !slices.contains(id) => failures.getOrElse(id, id)
      }
    val arrays = new java.util.IdentityHashMap[Array[Byte], Integer]
    slices.values.foreach(s => arrays.computeIfAbsent(s.array, a => Int.box(request.add(a))))
    files.zipWithIndex.foreach { case (file, index) =>
      if (unread(file).isEmpty) {
        describe(file, index, request) { dv =>
          val slice = slices(dv.uniqueId)
          Bitmap(arrays.get(slice.array), slice.start, dv.sizeInBytes, dv.cardinality)
        }
      }
    }
    deadline.check()
    val response = NativeBridge.resolve(request)
    kept ++= slices.filter { case (id, _) => worthKeeping(id) }
    files.zipWithIndex.map { case (file, index) =>
      file.path -> unread(file).fold(verdict(file, index, request, response, slices)) { why =>
        FileVerdict.Refuse(Refusal("IO", Some(file.path), s"cannot read $why"))
      }
    }.toMap
  }

  private def describe(
      file: SharedFile,
      index: Int,
      request: MergeRequest)(
      bitmapOf: DeletionVectorDescriptor => Bitmap): Unit = {
    val Sides(base, current, winner) = file.sides.map(_.fold(Bitmap(0, 0, 0, 0L))(bitmapOf))
    val rows = (file.role match {
      case LoserRole.Touched(_, added) => added.numPhysicalRecords
      case _ => file.live.numPhysicalRecords
    }).getOrElse(-1L)
    request.setFile(
      index,
      base.array, base.offset, base.length, base.cardinality,
      current.array, current.offset, current.length, current.cardinality,
      winner.array, winner.offset, winner.length, winner.cardinality,
      rows)
  }

  private def verdict(
      file: SharedFile,
      index: Int,
      request: MergeRequest,
      response: MergeResponse,
      slices: Map[String, Slice]): FileVerdict = {
    def refuse(rule: String, detail: String): FileVerdict =
      FileVerdict.Refuse(Refusal(rule, Some(file.path), detail))
    response.verdict(index) match {
      case Verdict.MERGED =>
        FileVerdict.Merge(MergedBitmap(response.bytes(index), response.cardinality(index)))
      case Verdict.COVERS_FILE => FileVerdict.RemoveWhole
      case Verdict.UNTOUCHED_OK => FileVerdict.Keep
      case Verdict.OVERLAP =>
        // The verdict came at the first common row; counting goes on and may meet bad bytes.
        val rows =
          try NativeBridge.overlapCount(request, index).toString
          catch { case _: NativeException => "some" }
        refuse("P5", s"both sides changed $rows of the same rows, the first at position " +
          s"${response.detail(index)}")
      case Verdict.NOTHING_NEW => refuse("P5", response.describe(index))
      case Verdict.NOT_AN_EXTENSION | Verdict.BASE_NOT_IN_CURRENT =>
        regardless(file, slices).getOrElse(refuse("P4", response.describe(index)))
      case Verdict.MALFORMED =>
        val dv = response.role(index) match {
          case DvRole.BASE => file.sides.base
          case DvRole.CURRENT => file.sides.current
          case _ => file.sides.winner
        }
        val rule = response.error(index) match {
          case DvError.DV_CARDINALITY | DvError.DV_ROW_RANGE => "P6"
          case _ => "CODEC"
        }
        refuse(rule, s"DV ${dv.fold("none")(_.uniqueId)}: ${response.describe(index)}")
    }
  }

  private def regardless(
      file: SharedFile, slices: Map[String, Slice]): Option[FileVerdict] = {
    def bytes(side: Option[DeletionVectorDescriptor]): Array[Byte] =
      side.fold(Array.emptyByteArray) { dv =>
        val Slice(array, start) = slices(dv.uniqueId)
        java.util.Arrays.copyOfRange(array, start, start + dv.sizeInBytes)
      }
    if (ResolutionPolicy.current.enforces("P4")) {
      None
    } else if (file.current == null) {
      Some(FileVerdict.Keep)
    } else {
      val Sides(base, current, winner) = file.sides.map(bytes)
      ResolutionPolicy.current.mergeRegardless(base, current, winner)
        .map { case (merged, cardinality) => FileVerdict.Merge(MergedBitmap(merged, cardinality)) }
    }
  }
}

private[rlc] object FileVerdicts {
  /** Where a DV that was read begins. */
  final case class Slice(array: Array[Byte], start: Int)
  /** A DV as the request describes it. */
  private final case class Bitmap(array: Int, offset: Int, length: Int, cardinality: Long)
}
