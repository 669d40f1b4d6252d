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

import java.io.RandomAccessFile
import java.nio.file.{Path, Paths}
import java.util.zip.CRC32

import org.scalatest.Assertions._

import org.apache.spark.sql.delta.actions.DeletionVectorDescriptor
import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray

/** Deletion vectors as they lie on disk. */
object DvFiles {

  private def descriptor(dv: DvRef): DeletionVectorDescriptor = DeletionVectorDescriptor(
    dv.storageType, dv.pathOrInline, dv.offset, dv.size, dv.cardinality)

  /** The file that holds the DV of `e`, none when it has no DV or an inline one. */
  def path(table: Path, e: FileEntry): Option[Path] = e.dv.filter(_.storageType != "i").map { dv =>
    Paths.get(descriptor(dv).absolutePath(
      new org.apache.hadoop.fs.Path(table.toUri)).toUri.getPath)
  }

  /** Row indexes of a DV; fails when size, checksum or cardinality are not as the log says. */
  def positions(table: Path, e: FileEntry): Seq[Long] = e.dv match {
    case None => Nil
    case Some(dv) =>
      val bytes =
        if (dv.storageType == "i") descriptor(dv).inlineData else frame(path(table, e).get, dv)
      val bitmap = RoaringBitmapArray.readFrom(bytes)
      assert(bitmap.cardinality === dv.cardinality, s"cardinality of the DV of ${e.path}")
      bitmap.toArray.toSeq
  }

  /** Size, bytes, CRC-32: the frame of a DV inside its file. */
  private def frame(file: Path, dv: DvRef): Array[Byte] = {
    val in = new RandomAccessFile(file.toFile, "r")
    try {
      // Without an offset the frame is all there is; with one, a version byte comes first.
      if (dv.offset.nonEmpty) assert(in.read() === 1, s"format version of $file")
      in.seek(dv.offset.getOrElse(0).toLong)
      assert(in.readInt() === dv.size, s"size of a DV in $file at ${dv.offset}")
      val bytes = new Array[Byte](dv.size)
      in.readFully(bytes)
      val crc = new CRC32
      crc.update(bytes)
      assert(in.readInt() === crc.getValue.toInt, s"checksum of a DV in $file at ${dv.offset}")
      bytes
    } finally in.close()
  }
}
