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

import java.io.{InterruptedIOException, IOException}
import java.net.SocketTimeoutException
import java.nio.ByteBuffer
import java.nio.channels.ClosedByInterruptException
import java.util.Arrays
import java.util.concurrent.{ExecutionException, Future, ThreadPoolExecutor, TimeoutException, TimeUnit}
import java.util.zip.CRC32

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.sql.delta.actions.{DeletionVectorDescriptor, Metadata}
import org.apache.spark.sql.delta.commands.DeletionVectorWriter
import org.apache.spark.sql.delta.storage.dv.DeletionVectorStore
import org.apache.spark.sql.delta.util.{Utils => DeltaUtils}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataInputStream, Path}

import org.apache.spark.internal.Logging
import org.apache.spark.util.ThreadUtils

/** A pass that took longer than it may. */
private[rlc] final class ResolutionTimeout(limitMs: Long)
  extends RuntimeException(s"the pass took longer than " +
    s"${RowLevelConcurrencyConf.MAX_RESOLUTION_TIME_MS.key} = $limitMs ms")

/** A statement that is cancelled by an interrupt ends as cancelled, not as a conflict to retry. */
private[rlc] object Interruption {
  def check(): Unit =
    if (Thread.interrupted()) throw new InterruptedException("the resolution was interrupted")

  /** How storage clients tell that their thread was interrupted; a timeout is not that. */
  def is(e: Throwable): Boolean = e match {
    case _: SocketTimeoutException => false
    case _: InterruptedIOException | _: ClosedByInterruptException => true
    case _ => Thread.currentThread().isInterrupted
  }

  /** Runs `body` as if there were no interrupt, which is back afterwards. */
  def deferring(body: => Unit): Unit = {
    val interrupted = Thread.interrupted()
    try body finally if (interrupted) Thread.currentThread().interrupt()
  }
}

/** When a pass must give up. */
private[rlc] final class Deadline(limitMs: Long) {
  private val end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(limitMs)

  def remainingNanos: Long = end - System.nanoTime()

  /** Also ends a pass whose statement was cancelled. */
  def check(): Unit = {
    Interruption.check()
    if (remainingNanos <= 0) throw new ResolutionTimeout(limitMs)
  }

  /** The result of `future`, whose task is cancelled when time runs out or the thread is stopped. */
  def await[T](future: Future[T], onWait: () => Unit): T = {
    var done = false
    try {
      var result: Option[T] = None
      while (result.isEmpty) {
        val slice = math.min(remainingNanos, TimeUnit.SECONDS.toNanos(5))
        if (slice <= 0) throw new ResolutionTimeout(limitMs)
        try result = Some(future.get(slice, TimeUnit.NANOSECONDS))
        catch { case _: TimeoutException => onWait() }
      }
      done = true
      result.get
    } catch {
      case e: ExecutionException =>
        done = true
        throw e.getCause
    } finally {
      if (!done) future.cancel(true)
    }
  }
}

/**
 * Reads serialized deletion vectors as the store has them, without decoding.
 *
 * A range in a DV file is the size as a big-endian int, the bitmap, and its CRC-32 as a big-endian
 * int (Delta protocol, "Deletion Vector File Storage Format"). Size and checksum are checked here,
 * the bitmap itself in Rust.
 *
 * @param tableRoot where relative DV paths start
 * @param hadoopConf with the table's credentials
 */
private[rlc] final class DeletionVectorReader(tableRoot: Path, hadoopConf: Configuration)
  extends Logging {
  import DeletionVectorReader._

  /**
   * Reads each of `dvs` once, files side by side, the ranges of a file with one open.
   *
   * @param sink gets each DV's bytes: array, start and length; called from several threads. It may
   *     keep the array, which is hardly longer than the DVs in it
   * @return for each DV that could not be read, by its unique id, the file and the reason
   */
  def read(
      dvs: Seq[DeletionVectorDescriptor],
      deadline: Deadline)(
      sink: (DeletionVectorDescriptor, Array[Byte], Int, Int) => Unit): Map[String, String] = {
    val failures = mutable.Map.empty[String, String]
    val (inline, onDisk) = dvs.partition(_.isInline)
    inline.foreach { dv =>
      try {
        val bytes = dv.inlineData
        if (bytes.length != dv.sizeInBytes) {
          throw new IllegalStateException(s"${bytes.length} bytes, ${dv.sizeInBytes} declared")
        }
        sink(dv, bytes, 0, bytes.length)
      } catch {
        case NonFatal(e) => failures(dv.uniqueId) = s"the inline deletion vector: ${reason(e)}"
      }
    }
    val byFile = onDisk.flatMap { dv =>
      try Some(dv.absolutePath(tableRoot) -> dv)
      catch {
        case NonFatal(e) =>
          failures(dv.uniqueId) = s"the path ${dv.pathOrInlineDv}: ${reason(e)}"
          None
      }
    }.groupMap(_._1)(_._2).toSeq
    val running = byFile.map { case (path, ranges) =>
      (path, ranges, pool.submit(() => readFile(path, ranges, sink)))
    }
    var filesDone = 0
    def logProgress(): Unit = logInfo(s"Reading deletion vectors of $tableRoot: " +
      s"$filesDone of ${byFile.size} files read")
    try {
      running.foreach { case (path, ranges, future) =>
        try failures ++= deadline.await(future, () => logProgress())
        catch {
          case NonFatal(e) if !e.isInstanceOf[ResolutionTimeout] =>
            ranges.foreach(dv => failures(dv.uniqueId) = s"$path: ${reason(e)}")
        }
        filesDone += 1
      }
    } finally {
      running.foreach(_._3.cancel(true))
    }
    failures.toMap
  }

  private def readFile(
      path: Path,
      dvs: Seq[DeletionVectorDescriptor],
      sink: (DeletionVectorDescriptor, Array[Byte], Int, Int) => Unit): Map[String, String] = {
    val failures = mutable.Map.empty[String, String]
    val in = path.getFileSystem(hadoopConf).open(path)
    try {
      spans(dvs).foreach { span =>
        val bytes = new Array[Byte](span.length)
        try {
          in.readFully(span.start, bytes)
          val sparse = span.dvs.map(_.sizeInBytes.toLong).sum < span.length / 2
          span.dvs.foreach { dv =>
            val at = Math.toIntExact(offset(dv) - span.start)
            checkFrame(bytes, at, dv.sizeInBytes) match {
              case None if sparse => // what lies between them is not to be kept
                val from = at + SIZE_BYTES
                sink(dv, Arrays.copyOfRange(bytes, from, from + dv.sizeInBytes), 0, dv.sizeInBytes)
              case None => sink(dv, bytes, at + SIZE_BYTES, dv.sizeInBytes)
              case Some(why) => failures(dv.uniqueId) = s"$path at byte ${offset(dv)}: $why"
            }
          }
        } catch {
          case NonFatal(e) =>
            span.dvs.foreach { dv =>
              failures(dv.uniqueId) = s"$path at byte ${offset(dv)}: ${reason(e)}"
            }
        }
      }
    } finally closeQuietly(in)
    failures.toMap
  }

  // What was read is checked already, so a stream that cannot be closed says nothing about it.
  private def closeQuietly(in: FSDataInputStream): Unit =
    try in.close() catch { case NonFatal(e) => logDebug("closing a deletion vector file", e) }
}

private[rlc] object DeletionVectorReader {
  private val SIZE_BYTES = 4
  private val FRAME_BYTES = SIZE_BYTES + 4
  /** Two ranges closer than this are read in one go: a request costs more than the bytes. */
  private val MAX_GAP = 64 * 1024
  private val MAX_SPAN = 8 * 1024 * 1024
  private val THREADS = 32

  /** Shared by all sessions: storage latency is what a pass waits for, not the CPU. */
  private lazy val pool: ThreadPoolExecutor =
    ThreadUtils.newDaemonCachedThreadPool("delta-rlc-dv-reader", THREADS)

  /** Bytes that one read covers, and the DVs in them. */
  private final case class Span(start: Long, length: Int, dvs: Vector[DeletionVectorDescriptor])

  /** An absent offset is 0, as Delta's own reader has it. */
  private def offset(dv: DeletionVectorDescriptor): Long = dv.offset.getOrElse(0).toLong

  /** Where the range of `dv` ends in its file. */
  private[rlc] def end(dv: DeletionVectorDescriptor): Long =
    offset(dv) + FRAME_BYTES + math.max(dv.sizeInBytes, 0)

  private def spans(dvs: Seq[DeletionVectorDescriptor]): Seq[Span] =
    dvs.sortBy(offset).foldLeft(List.empty[Span]) {
      case (last :: before, dv)
          if offset(dv) <= last.start + last.length + MAX_GAP &&
            end(dv) - last.start <= MAX_SPAN =>
        val length = math.max(last.length, (end(dv) - last.start).toInt)
        Span(last.start, length, last.dvs :+ dv) :: before
      case (before, dv) =>
        Span(offset(dv), Math.toIntExact(end(dv) - offset(dv)), Vector(dv)) :: before
    }

  private def checkFrame(bytes: Array[Byte], at: Int, size: Int): Option[String] = {
    val frame = ByteBuffer.wrap(bytes)
    val stored = frame.getInt(at)
    if (stored != size) {
      Some(s"the deletion vector has $stored bytes in the file and $size in the log")
    } else {
      val crc = new CRC32
      crc.update(bytes, at + SIZE_BYTES, size)
      val expected = frame.getInt(at + SIZE_BYTES + size)
      if (crc.getValue.toInt == expected) None
      else Some(f"the checksum is ${crc.getValue.toInt}%08x, the file has $expected%08x")
    }
  }

  private def reason(e: Throwable): String = e.toString
}

/** Merged deletion vectors as they are handed to the store. */
private[rlc] final case class MergedBitmap(bytes: Array[Byte], cardinality: Long)

/**
 * Writes merged deletion vectors with Delta's own store: same names, same prefix directories, same
 * frame. Never inline: VACUUM of Delta 4.4.0 fails on a live inline DV.
 */
private[rlc] final class MergedDeletionVectorWriter(
    tableRoot: Path,
    hadoopConf: Configuration,
    metadata: Metadata) extends Logging {
  import MergedDeletionVectorWriter._

  private val store = DeletionVectorStore.createInstance(hadoopConf)
  private val written = mutable.ArrayBuffer.empty[Path]

  /** The DV files made so far, also those of a write that failed. */
  def files: Seq[Path] = written.toSeq

  /**
   * Writes all of `merged` into one file, more only where a file would pass 1 GiB. When this
   * returns, the files are closed and the store says that they are whole; when it throws, they are
   * deleted.
   */
  def write(merged: Seq[(String, MergedBitmap)]): Map[String, DeletionVectorDescriptor] =
    try {
      bins(merged).flatMap(writeFile).toMap
    } catch {
      case e: Throwable =>
        delete(files)
        throw e
    }

  private def writeFile(
      bin: Seq[(String, MergedBitmap)]): Seq[(String, DeletionVectorDescriptor)] = {
    val prefix = DeltaUtils.getRandomPrefix(DeltaUtils.getRandomPrefixLength(metadata))
    val root = store.pathWithFileSystem(tableRoot)
    val (writer, fileId) = DeletionVectorWriter.createWriter(store, root, prefix)
    val file = store.generateFileNameInTable(root, fileId, prefix).path
    written += file
    var closed = false
    try {
      val descriptors = bin.map { case (path, bitmap) =>
        val range = writer.write(bitmap.bytes)
        path -> DeletionVectorDescriptor.onDiskWithRelativePath(
          id = fileId,
          randomPrefix = prefix,
          sizeInBytes = bitmap.bytes.length,
          cardinality = bitmap.cardinality,
          offset = Some(range.offset))
      }
      closed = true
      // On object stores this is the upload: a failure here means there is no file.
      writer.close()
      checkStored(file, descriptors.map(d => DeletionVectorReader.end(d._2)).max)
      descriptors
    } finally {
      if (!closed) {
        try writer.close() catch { case NonFatal(e) => logDebug("closing a failed DV file", e) }
      }
    }
  }

  /**
   * A close that returns is not enough: layers below it are known to log a failed upload and go on.
   * One look at each file. A file may be longer, as with stores that pad what they encrypt.
   */
  private def checkStored(file: Path, bytes: Long): Unit = {
    val stored = file.getFileSystem(hadoopConf).getFileStatus(file).getLen
    if (stored < bytes) {
      throw new IOException(s"$file has $stored bytes after it was closed, $bytes were written")
    }
  }

  /** Best effort: a file that stays is an orphan, which VACUUM takes. */
  def delete(paths: Seq[Path]): Unit = Interruption.deferring {
    paths.foreach { path =>
      try path.getFileSystem(hadoopConf).delete(path, false)
      catch { case NonFatal(e) => logWarning(s"Could not delete $path, VACUUM will", e) }
    }
  }
}

private[rlc] object MergedDeletionVectorWriter {
  private val MAX_FILE_BYTES = 1L << 30

  /** What goes into each file. */
  private[rlc] def bins(merged: Seq[(String, MergedBitmap)]): Seq[Seq[(String, MergedBitmap)]] = {
    val (full, last, _) = merged.foldLeft((
        Vector.empty[Vector[(String, MergedBitmap)]], Vector.empty[(String, MergedBitmap)], 0L)) {
      case ((done, bin, size), entry) =>
        val next = entry._2.bytes.length.toLong
        if (bin.nonEmpty && size + next > MAX_FILE_BYTES) (done :+ bin, Vector(entry), next)
        else (done, bin :+ entry, size + next)
    }
    if (last.isEmpty) full else full :+ last
  }
}
