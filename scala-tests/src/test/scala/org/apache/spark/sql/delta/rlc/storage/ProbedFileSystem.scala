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
package org.apache.spark.sql.delta.rlc.storage

import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{FSDataInputStream, FSDataOutputStream, FSInputStream, LocalFileSystem, Path}
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/**
 * One call that reached the storage: `open`, `read`, `create`, `write` and `close` (of a created
 * file), `delete`.
 */
final case class StorageCall(operation: String, path: Path)

/** What a test makes of the calls. Runs on the thread of the call; may sleep or throw. */
trait StorageProbe {
  /** Before the storage sees the call. */
  def before(call: StorageCall): Unit = ()
  /** When the storage has done it, and the caller does not know yet. */
  def after(call: StorageCall): Unit = ()
  /** May change bytes that were read. */
  def arrived(call: StorageCall, bytes: Array[Byte], offset: Int, length: Int): Unit = ()
}

/**
 * The local file system, watched: every call on a deletion vector file is recorded, and a test can
 * delay it or make it fail. Calls on other files pass unseen.
 *
 * For use as `fs.file.impl` with `fs.file.impl.disable.cache`.
 */
class ProbedFileSystem extends LocalFileSystem {
  import ProbedFileSystem._

  override def open(path: Path, bufferSize: Int): FSDataInputStream =
    call("open", path) {
      val in = super.open(path, bufferSize)
      if (isWatched(path)) new FSDataInputStream(new WatchedStream(path, in)) else in
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
      if (isWatched(path)) new WatchedOutput(path, out) else out
    }

  override def delete(path: Path, recursive: Boolean): Boolean =
    call("delete", path)(super.delete(path, recursive))
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

  private def isWatched(path: Path): Boolean = path.getName.startsWith("deletion_vector")

  private def call[T](operation: String, path: Path)(body: => T): T =
    if (isWatched(path)) {
      val made = StorageCall(operation, path)
      calls.add(made)
      probe.before(made)
      val result = body
      probe.after(made)
      result
    } else {
      body
    }

  /** Shows the bytes that are written, all calls in one as the stream buffers them, and close. */
  private final class WatchedOutput(path: Path, out: FSDataOutputStream)
    extends FSDataOutputStream(out, null) {
    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit =
      call("write", path)(super.write(bytes, offset, length))
    override def close(): Unit = call("close", path)(super.close())
  }

  /** Counts positional and stream reads. */
  private final class WatchedStream(path: Path, in: FSDataInputStream) extends FSInputStream {
    override def seek(position: Long): Unit = in.seek(position)
    override def getPos: Long = in.getPos
    override def seekToNewSource(target: Long): Boolean = in.seekToNewSource(target)
    override def read(): Int = call("read", path)(in.read())
    override def read(buffer: Array[Byte], offset: Int, length: Int): Int =
      call("read", path)(in.read(buffer, offset, length))
    override def readFully(position: Long, buffer: Array[Byte], offset: Int, length: Int): Unit =
      call("read", path) {
        in.readFully(position, buffer, offset, length)
        probe.arrived(StorageCall("read", path), buffer, offset, length)
      }
    override def close(): Unit = in.close()
  }
}
