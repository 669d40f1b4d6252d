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

import java.io.{ByteArrayOutputStream, DataOutputStream}
import java.nio.file.{Files, Path, Paths}
import java.util.UUID
import java.util.zip.CRC32

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.delta.DeltaLog
import org.apache.spark.sql.delta.DeltaOperations.{Operation, TestOperation}
import org.apache.spark.sql.delta.actions.{Action, AddFile, DeletionVectorDescriptor}
import org.apache.spark.sql.delta.deletionvectors.{RoaringBitmapArray, RoaringBitmapArrayFormat}
import org.apache.spark.sql.delta.util.JsonUtils
import org.apache.hadoop.fs.{Path => HPath}

/** Commits that Delta's own statements do not make: descriptors of another shape, other engines. */
object RawCommits {

  /** How a deletion vector is kept. */
  sealed trait Form
  /** In a file of the table, at an offset: the form that Delta's own DML writes. */
  case object OnDisk extends Form
  /** In the log. */
  case object Inline extends Form
  /** In a file named by its absolute URI. */
  case object Absolute extends Form
  /** In a file without an offset in the log: the frame starts at its first byte. */
  case object NoOffset extends Form

  /**
   * What these commits are in the log. Behind its own "Manual Update" Delta does not trust the last
   * checksum and computes one from the whole log, which takes longer than all else of a commit.
   */
  val operation: Operation = TestOperation("RAW")

  /** Deletes the rows at `positions` of the only file of the table, beside those it has lost. */
  def delete(positions: Seq[Long], form: Form = OnDisk): Statement =
    Statement.of(s"raw delete of $positions, $form") { (session, name) =>
      change(session, name) { entry =>
        val gone = DvFiles.positions(dir(name), entry).toSet ++ positions
        Some(descriptor(dir(name), gone.toSeq.sorted, form))
      }
    }

  /** Commits a new deletion vector for every file that `dv` gives one. */
  def change(session: SparkSession, name: String)(
      dv: FileEntry => Option[DeletionVectorDescriptor]): Unit = {
    val txn = DeltaLog.forTable(session, dir(name).toString).startTransaction(None)
    // Delta's snapshot says the same, and runs jobs of Spark for it.
    val actions: Seq[Action] = new LogReplay(dir(name)).live.flatMap { entry =>
      dv(entry).toSeq.flatMap { d =>
        val add = JsonUtils.fromJson[AddFile](entry.json.toString)
        val (added, removed) =
          add.copy(stats = wide(add.stats)).removeRows(d, updateStats = false)
        Seq(added, removed)
      }
    }
    txn.commit(actions, operation)
  }

  /** Statistics that say their bounds are wide; the null counts of these tables are zero. */
  private def wide(stats: String): String =
    if (stats == null) null else stats.replace("\"tightBounds\":true", "\"tightBounds\":false")

  private def dir(name: String): Path = Paths.get(Statement.pathOf(name))

  /** Writes a deletion vector with these positions and says where it is. */
  def descriptor(table: Path, positions: Seq[Long], form: Form): DeletionVectorDescriptor = {
    val bitmap = RoaringBitmapArray(positions: _*)
    bitmap.runOptimize()
    val bytes = bitmap.serializeAsByteArray(RoaringBitmapArrayFormat.Portable)
    form match {
      case Inline => DeletionVectorDescriptor.inlineInLog(bytes, positions.size.toLong)
      case OnDisk =>
        val id = UUID.randomUUID()
        val file = DeletionVectorDescriptor.assembleDeletionVectorPath(new HPath(table.toUri), id)
        write(Paths.get(file.toUri.getPath), 1.toByte +: frame(bytes))
        DeletionVectorDescriptor.onDiskWithRelativePath(
          id, randomPrefix = "", sizeInBytes = bytes.length, cardinality = positions.size.toLong,
          offset = Some(1))
      case Absolute =>
        val file = table.resolve(s"absolute_${UUID.randomUUID()}.bin")
        write(file, 1.toByte +: frame(bytes))
        DeletionVectorDescriptor.onDiskWithAbsolutePath(
          file.toUri.toString, sizeInBytes = bytes.length, cardinality = positions.size.toLong,
          offset = Some(1))
      case NoOffset =>
        val file = table.resolve(s"bare_${UUID.randomUUID()}.bin")
        write(file, frame(bytes))
        DeletionVectorDescriptor.onDiskWithAbsolutePath(
          file.toUri.toString, sizeInBytes = bytes.length, cardinality = positions.size.toLong,
          offset = None)
    }
  }

  private def write(file: Path, bytes: Array[Byte]): Unit = Files.write(file, bytes)

  private def frame(bytes: Array[Byte]): Array[Byte] = {
    val out = new ByteArrayOutputStream
    val data = new DataOutputStream(out)
    data.writeInt(bytes.length)
    data.write(bytes)
    val crc = new CRC32
    crc.update(bytes)
    data.writeInt(crc.getValue.toInt)
    out.toByteArray
  }
}
