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

import java.net.URLDecoder
import java.nio.file.{Path, Paths}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import org.apache.hadoop.fs.{Path => HPath}
import org.apache.parquet.example.data.Group
import org.apache.parquet.hadoop.ParquetReader
import org.apache.parquet.hadoop.example.GroupReadSupport

/** A column's name and its name in the files. */
private final case class Column(logical: String, physical: String)

/**
 * Rows of a table at a version, read file by file with plain Parquet and the replayed log: no
 * Spark, no snapshot, no reader of Delta's. Flat columns of numbers, strings and booleans.
 */
final class LocalReader(table: Path, replay: LogReplay) {

  private val files = mutable.Map.empty[String, Seq[Group]]

  private def metadata(version: Long): JsonNode = replay.commits.takeWhile(_.version <= version)
    .flatMap(_.actions).filter(_.has("metaData")).last.get("metaData")

  private def columns(metadata: JsonNode): Seq[Column] =
    LogReplay.parse(metadata.get("schemaString").asText()).get("fields").asScala.map { f =>
      val name = f.get("name").asText()
      Column(name, f.path("metadata").path("delta.columnMapping.physicalName").asText(name))
    }.toSeq

  /** Rows as strings, sorted; with row id and row commit version at the end when asked. */
  def rows(version: Long, rowIds: Boolean = false): Seq[String] = {
    val meta = metadata(version)
    val cols = columns(meta)
    val partitions = meta.get("partitionColumns").elements().asScala.map(_.asText()).toSet
    val conf = meta.get("configuration")
    def materialized(name: String): String =
      conf.path(s"delta.rowTracking.materialized${name}ColumnName").asText("")
    replay.states(version.toInt).values.toSeq.flatMap { file =>
      val gone = DvFiles.positions(table, file).toSet
      groups(file).zipWithIndex.filterNot { case (_, i) => gone(i.toLong) }.map { case (g, i) =>
        val values = cols.map { c =>
          if (!partitions(c.logical)) value(g, c.physical).orNull
          else Option(file.json.get("partitionValues").get(c.physical)).filterNot(_.isNull)
            .map(_.asText()).orNull
        }
        val ids = if (!rowIds || !file.json.has("baseRowId")) Nil else Seq(
          value(g, materialized("RowId"))
            .getOrElse((file.json.path("baseRowId").asLong() + i).toString),
          value(g, materialized("RowCommitVersion"))
            .getOrElse(file.json.path("defaultRowCommitVersion").asText()))
        (values ++ ids).mkString("[", ",", "]")
      }
    }.sorted
  }

  private def value(g: Group, field: String): Option[String] =
    if (g.getType.containsField(field) && g.getFieldRepetitionCount(field) > 0) {
      Some(g.getValueToString(g.getType.getFieldIndex(field), 0))
    } else None

  private def groups(file: FileEntry): Seq[Group] = files.getOrElseUpdate(file.path, {
    val decoded = URLDecoder.decode(file.path.replace("+", "%2B"), "UTF-8")
    val path =
      if (decoded.startsWith("file:")) new HPath(decoded)
      else new HPath(table.resolve(Paths.get(decoded)).toUri)
    val reader = ParquetReader.builder(new GroupReadSupport, path).build()
    try Iterator.continually(reader.read()).takeWhile(_ != null).toVector finally reader.close()
  })
}
