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

import java.util.Optional

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Try

import io.delta.kernel.{Scan, Table}
import io.delta.kernel.data.{FilteredColumnarBatch, Row}
import io.delta.kernel.defaults.engine.DefaultEngine
import io.delta.kernel.internal.InternalScanFileUtils
import io.delta.kernel.internal.data.ScanStateRow
import io.delta.kernel.utils.CloseableIterator
import org.apache.hadoop.conf.Configuration

/** A table as Delta Kernel reads it: another implementation of the protocol. */
object KernelReader {
  /** Whether there is the Parquet that the kernel needs: Spark 4.0 brings an older one. */
  lazy val canRun: Boolean = Try(
    Class.forName("org.apache.parquet.schema.LogicalTypeAnnotation$GeometryLogicalTypeAnnotation"))
    .isSuccess

  /** The first column, ascending. */
  def ids(path: String): Seq[Long] = read(path)(_.getLong(0)).sorted

  /** The first two columns, ascending. */
  def rows(path: String): Seq[(Long, Long)] =
    read(path)(r => (r.getLong(0), r.getLong(1))).sorted

  private def read[T](path: String)(take: Row => T): Seq[T] = {
    val engine = DefaultEngine.create(new Configuration())
    val scan = Table.forPath(engine, path).getLatestSnapshot(engine).getScanBuilder.build()
    val state = scan.getScanState(engine)
    val readSchema = ScanStateRow.getPhysicalDataReadSchema(state)
    val found = mutable.ArrayBuffer.empty[T]
    scan.getScanFiles(engine).asScala.foreach { batch =>
      batch.getRows.asScala.foreach { file =>
        val status = InternalScanFileUtils.getAddFileStatus(file)
        val data = engine.getParquetHandler.readParquetFiles(
          io.delta.kernel.internal.util.Utils.singletonCloseableIterator(status), readSchema,
          Optional.empty())
        val physical: CloseableIterator[io.delta.kernel.data.ColumnarBatch] = data.map(_.getData)
        val rows: CloseableIterator[FilteredColumnarBatch] =
          Scan.transformPhysicalData(engine, state, file, physical)
        rows.asScala.foreach(_.getRows.asScala.foreach(r => found += take(r)))
      }
    }
    found.toSeq
  }
}
