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
package org.apache.spark.sql.delta.rlc.harness

import java.io.{FileNotFoundException, IOException}
import java.nio.file.{Files, Paths}
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{FileStatus, FSDataInputStream, FSDataOutputStream, FSInputStream, LocalFileSystem, Path}
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/**
 * One call that reached the storage: `open`, `read`, `create`, `write` and `close` (of a created
 * file), `rename` (by its target), `delete`, `status`, `list`, `mkdirs`.
 */
final case class StorageCall(operation: String, path: Path)

/** What a test makes of the calls. Runs on the thread of the call; may block or throw. */
trait StorageProbe {
  /** The files it is about: deletion vectors, unless a test wants others. */
  def watches(path: Path): Boolean = StorageProbe.isDv(path)
  /** Before the storage sees the call. */
  def before(call: StorageCall): Unit = ()
  /** When the storage has done it, and the caller does not know yet. */
  def after(call: StorageCall): Unit = ()
  /** How many of the bytes that a read asks for it gets; below zero for the end of the file. */
  def granted(call: StorageCall, asked: Int): Int = asked
  /** May change bytes that were read. */
  def arrived(call: StorageCall, bytes: Array[Byte], offset: Int, length: Int): Unit = ()
  /** What a rename, a delete or a mkdirs says, of which `done` is the truth. */
  def answer(call: StorageCall, done: Boolean): Boolean = done
}

object StorageProbe {
  def isDv(path: Path): Boolean =
    path.getName.startsWith("deletion_vector") && path.getName.endsWith(".bin")

  /** Every such call fails before it is done. */
  def failing(operation: String, when: => Boolean = true): StorageProbe = new StorageProbe {
    override def before(call: StorageCall): Unit =
      if (call.operation == operation && when) throw new IOException(s"injected before $call")
  }

  /** The data never arrives although every write seemed to work: `close` says so, the file is gone. */
  object Lost extends StorageProbe {
    override def after(call: StorageCall): Unit = if (call.operation == "close") {
      lose(call.path, 0)
      throw new IOException(s"injected: the upload of ${call.path} failed")
    }
  }

  /** What a failed upload leaves of a file: its first bytes, or nothing at all. */
  def lose(path: Path, keep: Int): Unit = {
    val file = Paths.get(path.toUri.getPath)
    Files.deleteIfExists(file.resolveSibling(s".${file.getFileName}.crc"))
    if (keep == 0) Files.deleteIfExists(file): Unit
    else Files.write(file, Files.readAllBytes(file).take(keep)): Unit
  }

  /**
   * The answer to the commit of `version` is lost: the file is in place, and its writer, asking
   * whether it is there, takes it for somebody else's. Once.
   */
  final class LostAnswer(version: Long) extends StorageProbe {
    @volatile var happened = false
    override def watches(path: Path): Boolean = path.getName == f"$version%020d.json"
    override def answer(call: StorageCall, done: Boolean): Boolean =
      if (call.operation == "rename" && !happened) {
        happened = true
        false
      } else done
  }
}

/**
 * The local file system, watched: every call on a file that the probe is about is recorded, and a
 * test can delay it, make it fail or make it lie. Calls on other files pass unseen.
 *
 * For use as `fs.file.impl` with `fs.file.impl.disable.cache`.
 */
class ProbedFileSystem extends LocalFileSystem {
  import ProbedFileSystem._

  override def open(path: Path, bufferSize: Int): FSDataInputStream =
    call("open", path) {
      val in = super.open(path, bufferSize)
      if (probe.watches(path)) new FSDataInputStream(new WatchedStream(path, in)) else in
    }

  override def create(
      path: Path,
      permission: FsPermission,
      overwrite: Boolean,
      bufferSize: Int,
      replication: Short,
      blockSize: Long,
      progress: Progressable): FSDataOutputStream =
    call("create", path) {
      val out =
        super.create(path, permission, overwrite, bufferSize, replication, blockSize, progress)
      if (probe.watches(path)) new WatchedOutput(path, out) else out
    }

  override def delete(path: Path, recursive: Boolean): Boolean =
    asked("delete", path)(super.delete(path, recursive))

  override def rename(from: Path, to: Path): Boolean = asked("rename", to)(super.rename(from, to))

  override def mkdirs(path: Path, permission: FsPermission): Boolean =
    asked("mkdirs", path)(super.mkdirs(path, permission))

  override def getFileStatus(path: Path): FileStatus =
    call("status", path)(super.getFileStatus(path))

  override def listStatus(path: Path): Array[FileStatus] = call("list", path)(super.listStatus(path))
}

object ProbedFileSystem {

  /** Session options under which Delta's Hadoop confs use this file system. */
  val options: Seq[(String, String)] = Seq(
    "fs.file.impl" -> classOf[ProbedFileSystem].getName,
    "fs.file.impl.disable.cache" -> "true")

  private object Idle extends StorageProbe

  private val calls = new ConcurrentLinkedQueue[StorageCall]
  @volatile private var probe: StorageProbe = Idle

  /** Runs `body` under `using` and returns its result with the calls it made, as they came. */
  def watch[T](using: StorageProbe = Idle)(body: => T): (T, Seq[StorageCall]) = {
    calls.clear()
    probe = using
    try {
      val result = body
      (result, calls.asScala.toSeq)
    } finally probe = Idle
  }

  private def call[T](operation: String, path: Path)(body: => T): T =
    made(operation, path)(_ => body)

  private def asked(operation: String, path: Path)(body: => Boolean): Boolean = {
    var call: Option[StorageCall] = None
    val done = made(operation, path) { c =>
      call = c
      body
    }
    call.fold(done)(probe.answer(_, done))
  }

  /** Makes a call; `body` gets it if the probe is about it. */
  private def made[T](operation: String, path: Path)(body: Option[StorageCall] => T): T = {
    val now = probe
    if (now.watches(path)) {
      val call = StorageCall(operation, path)
      calls.add(call)
      now.before(call)
      // That there is no such file is an answer, too.
      val result =
        try body(Some(call))
        catch {
          case e: FileNotFoundException =>
            now.after(call)
            throw e
        }
      now.after(call)
      result
    } else {
      body(None)
    }
  }

  /** Shows the bytes that are written, all calls in one as the stream buffers them, and close. */
  private final class WatchedOutput(path: Path, out: FSDataOutputStream)
    extends FSDataOutputStream(out, null) {
    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit =
      call("write", path)(super.write(bytes, offset, length))
    override def close(): Unit = call("close", path)(super.close())
  }

  /** Shows positional and stream reads. */
  private final class WatchedStream(path: Path, in: FSDataInputStream) extends FSInputStream {
    override def seek(position: Long): Unit = in.seek(position)
    override def getPos: Long = in.getPos
    override def seekToNewSource(target: Long): Boolean = in.seekToNewSource(target)
    override def close(): Unit = in.close()

    override def read(): Int = {
      val one = new Array[Byte](1)
      if (read(one, 0, 1) < 0) -1 else one(0) & 0xff
    }
    override def read(buffer: Array[Byte], offset: Int, length: Int): Int =
      reading(buffer, offset, length)(in.read(buffer, offset, _))
    /** What the positional reads of the base class, also the one that reads fully, are made of. */
    override def read(position: Long, buffer: Array[Byte], offset: Int, length: Int): Int =
      reading(buffer, offset, length)(in.read(position, buffer, offset, _))

    private def reading(buffer: Array[Byte], offset: Int, length: Int)(some: Int => Int): Int =
      made("read", path) { call =>
        val granted = call.fold(length)(probe.granted(_, length))
        val read = if (granted < 0) -1 else some(math.min(granted, length))
        if (read > 0) call.foreach(probe.arrived(_, buffer, offset, read))
        read
      }
  }
}
