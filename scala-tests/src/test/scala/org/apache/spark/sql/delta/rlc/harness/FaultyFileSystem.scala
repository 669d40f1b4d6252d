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

import java.io.{IOException, OutputStream}
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{FSDataInputStream, FSDataOutputStream, LocalFileSystem, Path}
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/** The local file system with holes in it, for sessions that name it in `fs.file.impl`. */
class FaultyFileSystem extends LocalFileSystem {
  import FaultyFileSystem._

  override def open(f: Path, bufferSize: Int): FSDataInputStream = {
    if (f.getName.endsWith(".bin")) opened.incrementAndGet()
    meet(Open, f)
    super.open(f, bufferSize)
  }

  override def create(
      f: Path, permission: FsPermission, overwrite: Boolean, bufferSize: Int, replication: Short,
      blockSize: Long, progress: Progressable): FSDataOutputStream = {
    meet(Create, f)
    val out = super.create(f, permission, overwrite, bufferSize, replication, blockSize, progress)
    if (!matches(Close, f)) out
    else new FSDataOutputStream(new OutputStream {
      override def write(b: Int): Unit = out.write(b)
      override def write(b: Array[Byte], off: Int, len: Int): Unit = out.write(b, off, len)
      override def close(): Unit = {
        out.close()
        delete(f, false)
        throw new IOException(s"the upload of $f failed")
      }
    }, null)
  }

  private def meet(op: Operation, f: Path): Unit =
    if (matches(op, f)) throw new IOException(s"no $op of $f today")
}

object FaultyFileSystem {
  sealed trait Operation
  case object Open extends Operation
  case object Create extends Operation
  /** The data never arrives although every write seemed to work. */
  case object Close extends Operation

  private val faults = new CopyOnWriteArrayList[(Operation, Path => Boolean)]
  private val opened = new AtomicInteger

  /** Deletion vector files opened so far. */
  def dvOpens: Int = opened.get()

  private def matches(op: Operation, f: Path): Boolean =
    faults.asScala.exists { case (o, p) => o == op && p(f) }
  /** Runs `body` with a fault in place. */
  def withFault[T](op: Operation, where: Path => Boolean)(body: => T): T = {
    val fault = (op, where)
    faults.add(fault)
    try body finally faults.remove(fault)
  }

  /** Session options that put this file system in place, past Hadoop's cache of them. */
  val options: Seq[(String, String)] = Seq(
    "fs.file.impl" -> classOf[FaultyFileSystem].getName,
    "fs.file.impl.disable.cache" -> "true")
}
