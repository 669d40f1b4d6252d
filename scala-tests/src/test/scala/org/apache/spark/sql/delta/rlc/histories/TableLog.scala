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

import java.net.URI
import java.nio.file.{Files, Path}
import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path => HPath}
import org.apache.parquet.example.data.Group
import org.apache.parquet.hadoop.ParquetReader
import org.apache.parquet.hadoop.example.GroupReadSupport

import org.apache.spark.sql.delta.actions.DeletionVectorDescriptor
import org.apache.spark.sql.delta.storage.dv.DeletionVectorStore
import org.apache.spark.sql.delta.util.JsonUtils

/** A row as it lies in the table: its values and, if the table keeps them, its row id. */
final case class StoredRow(values: Record, rowId: Option[Long])

/** The table after one version, by a replay of the log that shares nothing with Delta's. */
final case class VersionState(version: Long, live: Map[TableLog.Key, JsonNode], metadata: JsonNode) {
  def property(name: String): Option[String] =
    Option(metadata.get("configuration").get(name)).map(_.asText)
  def rowTracking: Boolean = property("delta.enableRowTracking").contains("true")
}

/** Reads a table folder as the protocol says: JSON commits, Parquet files, deletion vectors. */
final class TableLog(dir: Path) {
  import TableLog._

  private val log = dir.resolve("_delta_log")

  def lastVersion: Long = {
    val files = Files.list(log)
    try files.iterator().asScala.map(_.getFileName.toString)
      .collect { case CommitFile(v) => v.toLong }.max
    finally files.close()
  }

  /** The actions of a version, each as the pair of its name and its content. */
  def actions(version: Long): Vector[(String, JsonNode)] =
    Files.readAllLines(log.resolve(f"$version%020d.json")).asScala.toVector.filter(_.nonEmpty).map {
      line =>
        val field = mapper.readTree(line).properties().iterator().next()
        field.getKey -> field.getValue
    }

  def checksum(version: Long): Option[JsonNode] = {
    val file = log.resolve(f"$version%020d.crc")
    if (Files.exists(file)) Some(mapper.readTree(Files.readString(file))) else None
  }

  /** Every version from 0 to the last. A rule of the protocol that is broken on the way is thrown. */
  def replay(): Vector[VersionState] = {
    var live = Map.empty[Key, JsonNode]
    var metadata: JsonNode = null
    var timestamp = 0L
    (0L to lastVersion).toVector.map { v =>
      val all = actions(v)
      val adds = all.collect { case ("add", a) => a }
      val removes = all.collect { case ("remove", r) => r }
      all.collect { case ("metaData", m) => metadata = m }
      def broken(what: String): Nothing = throw new BrokenLog(v, what)
      val addKeys = adds.map(key)
      val removeKeys = removes.map(key)
      if (addKeys.distinct.size < addKeys.size) broken(s"a file is added twice: $addKeys")
      if (removeKeys.distinct.size < removeKeys.size) broken(s"a file is removed twice: $removeKeys")
      addKeys.intersect(removeKeys).headOption.foreach(k => broken(s"$k is added and removed"))
      removeKeys.filterNot(live.contains).foreach { k =>
        broken(s"$k is removed, live entries of that path: ${live.keys.filter(_.path == k.path)}")
      }
      all.collect { case ("commitInfo", c) if c.hasNonNull("inCommitTimestamp") =>
        val now = c.get("inCommitTimestamp").asLong
        if (now <= timestamp) broken(s"its timestamp $now is not after $timestamp")
        timestamp = now
      }
      live = live -- removeKeys ++ addKeys.zip(adds)
      live.keys.groupBy(_.path).filter(_._2.size > 1).foreach { case (p, ks) =>
        broken(s"$p has ${ks.size} live entries: $ks")
      }
      VersionState(v, live, metadata)
    }
  }

  /** The rows of a state, with checks of each file's statistics and deletion vector. */
  def rows(state: VersionState): Vector[StoredRow] = {
    val idColumn = state.property("delta.rowTracking.materializedRowIdColumnName")
    state.live.toVector.flatMap { case (k, add) =>
      val file = dataFile(add)
      val deleted = deletionVector(add)
      def broken(what: String): Nothing = throw new BrokenLog(state.version, s"$k: $what")
      val stats = Option(add.get("stats")).map(s => mapper.readTree(s.asText))
        .getOrElse(broken("no statistics"))
      if (stats.get("numRecords").asLong != file.size) {
        broken(s"numRecords ${stats.get("numRecords")} of a file of ${file.size}")
      }
      if (deleted.nonEmpty) {
        if (deleted.max >= file.size) broken(s"row ${deleted.max} of ${file.size} is deleted")
        if (deleted.size >= file.size) broken("a live file without live rows")
        if (stats.path("tightBounds").asBoolean(true)) broken("tight bounds beside a vector")
      }
      val live = file.indices.filterNot(i => deleted(i.toLong)).map { i =>
        val raw = file(i)
        val values = Columns.names.zip(Columns.types).map { case (c, t) =>
          raw.columns.getOrElse(c, partitionValue(add, c, t))
        }
        val materialised = idColumn.flatMap(raw.columns.get).collect { case Num(x) => x }
        StoredRow(values, materialised.orElse(
          Option(add.get("baseRowId")).map(_.asLong + i)))
      }
      checkBounds(live.map(_.values), stats).foreach(broken)
      live
    }
  }

  private def checkBounds(rows: Seq[Record], stats: JsonNode): Option[String] =
    Columns.names.zipWithIndex.flatMap { case (c, i) =>
      val values = rows.map(_(i)).collect { case Num(x) => x }
      val (lo, hi) = (stats.path("minValues").path(c), stats.path("maxValues").path(c))
      if (values.nonEmpty && lo.isNumber && (values.min < lo.asLong || values.max > hi.asLong)) {
        Some(s"$c from ${values.min} to ${values.max} outside of the statistics $stats")
      } else None
    }.headOption

  private def partitionValue(add: JsonNode, column: String, columnType: String): Value =
    Option(add.get("partitionValues").get(column)).filterNot(_.isNull).map(_.asText) match {
      case None | Some("") => Null
      case Some(text) => if (columnType == "STRING") Str(text) else Num(text.toLong)
    }

  private def dataFile(add: JsonNode): Vector[RawRow] =
    parquetCache.computeIfAbsent(add.get("path").asText, { p =>
      // Paths are relative here, and URL-encoded as all paths of the log.
      readParquet(dir.resolve(new URI(p).getPath))
    })

  private def deletionVector(add: JsonNode): Set[Long] = Option(add.get("deletionVector")) match {
    case None => Set.empty
    case Some(node) =>
      val dv = JsonUtils.mapper.treeToValue(node, classOf[DeletionVectorDescriptor])
      val positions = DeletionVectorStore.createInstance(hadoopConf)
        .read(dv, new HPath(dir.toUri)).values.toSet
      if (positions.size != dv.cardinality) {
        throw new BrokenLog(-1, s"$dv has ${positions.size} positions")
      }
      positions
  }
}

/** The log breaks a rule of the protocol, or the table of what the product promises of its commits. */
final class BrokenLog(version: Long, what: String)
  extends RuntimeException(s"version $version: $what")

object TableLog {
  private val mapper = new ObjectMapper
  private val hadoopConf = new Configuration
  private val CommitFile = """(\d{20})\.json""".r

  /** What replay goes by: one file with one deletion vector. */
  final case class Key(path: String, dvId: Option[String])

  def key(action: JsonNode): Key = Key(
    action.get("path").asText,
    Option(action.get("deletionVector")).map { dv =>
      dv.get("storageType").asText + dv.get("pathOrInlineDv").asText +
        Option(dv.get("offset")).fold("")(o => s"@${o.asLong}")
    })

  /** A row of a Parquet file, by column name. */
  private final case class RawRow(columns: Map[String, Value])

  /** Data files never change and their names are unique, so clones of a table share this. */
  private val parquetCache = new ConcurrentHashMap[String, Vector[RawRow]]
  def clearCache(): Unit = parquetCache.clear()

  private def readParquet(file: Path): Vector[RawRow] = {
    val reader = ParquetReader.builder(new GroupReadSupport, new HPath(file.toUri))
      .withConf(hadoopConf).build()
    try {
      val rows = mutable.ArrayBuffer.empty[RawRow]
      var group: Group = reader.read()
      while (group != null) {
        val g = group
        rows += RawRow(g.getType.getFields.asScala.map(_.asPrimitiveType).flatMap { f =>
          val value = if (g.getFieldRepetitionCount(f.getName) == 0) Some(Null)
            else f.getPrimitiveTypeName.name match {
              case "INT64" => Some(Num(g.getLong(f.getName, 0)))
              case "BINARY" => Some(Str(g.getString(f.getName, 0)))
              case _ => None // Delta's own, such as a mark on rows that only moved
            }
          value.map(f.getName -> _)
        }.toMap)
        group = reader.read()
      }
      rows.toVector
    } finally reader.close()
  }
}
