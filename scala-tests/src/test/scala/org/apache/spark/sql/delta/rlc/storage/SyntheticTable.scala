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

import java.nio.file.{Files, Path}
import java.sql.Timestamp
import java.util.UUID

import org.apache.spark.sql.delta.{DeltaLog, DeltaOperations, OptimisticTransaction}
import org.apache.spark.sql.delta.actions.{Action, AddFile, CommitInfo, DeletionVectorDescriptor}
import org.apache.spark.sql.delta.commands.DeletionVectorWriter
import org.apache.spark.sql.delta.deletionvectors.{RoaringBitmapArray, RoaringBitmapArrayFormat}
import org.apache.spark.sql.delta.rlc.{CommandFacts, RowLevelConcurrencyConf, RowLevelTransaction}
import org.apache.spark.sql.delta.storage.dv.DeletionVectorStore
import org.apache.spark.sql.delta.util.FileNames
import org.apache.hadoop.fs.{Path => HadoopPath}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.Literal

/**
 * A table whose log and deletion vectors are real and whose data files do not exist: DELETEs on it
 * are the commits that Delta's command would make, without the scan. So thousands of files in one
 * statement cost no more than their log entries. A folder that has a table already is taken as it is.
 *
 * @param rows rows in each file
 * @param dvsPerFile how many DVs of a statement go into one DV file
 */
final class SyntheticTable(
    spark: SparkSession,
    dir: Path,
    fileCount: Int,
    val rows: Long,
    dvsPerFile: Int = Int.MaxValue) {

  private val hadoopPath = new HadoopPath(dir.toUri)

  val files: Seq[String] = (0 until fileCount).map(i => f"part-$i%05d.parquet")

  /** The table's log. */
  def log: DeltaLog = DeltaLog.forTable(spark, hadoopPath)

  if (!Files.exists(dir.resolve("_delta_log"))) {
    spark.sql(s"CREATE TABLE delta.`$dir` (id BIGINT) USING delta TBLPROPERTIES " +
      s"('delta.enableDeletionVectors' = 'true')")
    val entries = files.map(file => AddFile(file, Map.empty, 1000L, 1L, dataChange = true,
      stats = s"""{"numRecords":$rows,"tightBounds":false}"""))
    log.startTransaction(None).commit(entries, DeltaOperations.ManualUpdate)
  }

  /**
   * A winning DELETE: its DV file and its commit are written as they are on disk, without the
   * transaction and the hooks around it, so that hundreds of winners take no time.
   *
   * @param deletes row positions by file
   * @return the version
   */
  def delete(deletes: Map[String, Seq[Long]]): Long = {
    // The newest version may be one that this object did not write.
    val snapshot = log.update()
    val live = snapshot.allFiles.collect().filter(f => deletes.contains(f.path)).toSeq
    append(Seq(actionsOf(live, deletes)), snapshot.version)
  }

  /** Many winning DELETEs in a row, without reading the log in between. */
  def deleteInTurn(deletes: Seq[Map[String, Seq[Long]]]): Long = {
    val snapshot = log.update()
    val touched = deletes.flatMap(_.keys).toSet
    val live = snapshot.allFiles.collect().filter(f => touched(f.path)).map(f => f.path -> f).toMap
    val (_, commits) = deletes.foldLeft((live, Vector.empty[Seq[Action]])) {
      case ((entries, done), statement) =>
        val actions = actionsOf(statement.keys.toSeq.map(entries), statement)
        val added = actions.collect { case add: AddFile => add.path -> add }
        (entries ++ added, done :+ actions)
    }
    append(commits, snapshot.version)
  }

  private def append(commits: Seq[Seq[Action]], after: Long): Long = {
    commits.zipWithIndex.foreach { case (actions, i) =>
      val info = CommitInfo.empty(None).copy(
        operation = "DELETE", timestamp = new Timestamp(System.currentTimeMillis()),
        readVersion = Some(after + i), isBlindAppend = Some(false),
        isolationLevel = Some("Serializable"), txnId = Some(UUID.randomUUID().toString))
      log.store.write(
        FileNames.unsafeDeltaFile(log.logPath, after + 1 + i),
        (info +: actions).iterator.map(_.json),
        overwrite = false,
        log.newDeltaHadoopConf())
    }
    after + commits.size
  }

  /** A transaction of a DELETE with the feature on, which reads the table now. */
  def startLoser(
      settings: RowLevelConcurrencyConf.Settings = SyntheticTable.settings): OptimisticTransaction =
    new RowLevelTransaction(log, None, log.update(), CommandFacts("DELETE", log), settings)

  /** Writes the DVs of `deletes` into one file and commits them. */
  def commit(txn: OptimisticTransaction, deletes: Map[String, Seq[Long]]): Long =
    txn.commit(prepare(txn, deletes), DeltaOperations.ManualUpdate)

  /**
   * The actions of a DELETE that `txn` read the files for, with its DV file written.
   *
   * @param known the files, if they need not be looked up
   */
  def prepare(
      txn: OptimisticTransaction,
      deletes: Map[String, Seq[Long]],
      known: Option[Seq[AddFile]] = None): Seq[Action] = {
    val read = known match {
      case Some(entries) =>
        txn.trackReadPredicates(Seq(Literal.TrueLiteral))
        txn.trackFilesRead(entries)
        entries
      case None => txn.filterFiles(Nil, keepNumRecords = true)
    }
    actionsOf(read.filter(f => deletes.contains(f.path)), deletes)
  }

  private def actionsOf(entries: Seq[AddFile], deletes: Map[String, Seq[Long]]): Seq[Action] =
    entries.grouped(math.max(1, math.min(entries.size, dvsPerFile))).flatMap { packed =>
      val store = DeletionVectorStore.createInstance(log.newDeltaHadoopConf())
      val (writer, fileId) =
        DeletionVectorWriter.createWriter(store, store.pathWithFileSystem(log.dataPath))
      try {
        packed.flatMap { file =>
          val bitmap =
            if (file.deletionVector == null) new RoaringBitmapArray
            else store.read(file.deletionVector, log.dataPath)
          deletes(file.path).foreach(bitmap.add)
          bitmap.runOptimize()
          val range = writer.write(bitmap.serializeAsByteArray(RoaringBitmapArrayFormat.Portable))
          val dv = DeletionVectorDescriptor.onDiskWithRelativePath(fileId,
            sizeInBytes = range.length, cardinality = bitmap.cardinality,
            offset = Some(range.offset))
          Seq(
            file.copy(deletionVector = dv, dataChange = true,
              stats = s"""{"numRecords":$rows,"tightBounds":false}"""),
            file.removeWithTimestamp())
        }
      } finally writer.close()
    }.toSeq

  /** Deleted positions of every file, as Delta reads them from the newest version. */
  def deleted(): Map[String, Seq[Long]] = {
    val store = DeletionVectorStore.createInstance(log.newDeltaHadoopConf())
    log.update().allFiles.collect().map { file =>
      file.path -> Option(file.deletionVector)
        .fold(Seq.empty[Long])(store.read(_, log.dataPath).toArray.toSeq)
    }.toMap
  }
}

object SyntheticTable {
  val settings: RowLevelConcurrencyConf.Settings = RowLevelConcurrencyConf.Settings(
    maxResolutionTimeMs = 60000L, maxDvBytes = 512L * 1024 * 1024)
}
