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

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** A deletion vector as the log names it. */
final case class DvRef(
    storageType: String, pathOrInline: String, offset: Option[Int], size: Int, cardinality: Long) {
  def id: String = s"$storageType$pathOrInline${offset.fold("")(o => s"@$o")}"
}

/** One add or remove of the log; `json` is the action as it stands there. */
final case class FileEntry(path: String, dv: Option[DvRef], json: JsonNode) {
  def dvId: Option[String] = dv.map(_.id)
  def key: (String, Option[String]) = (path, dvId)
  def size: Long = json.path("size").asLong(-1)
  def dataChange: Boolean = json.path("dataChange").asBoolean()
  /** The statistics, which the log holds as a string of JSON; missing node when there are none. */
  def stats: JsonNode = LogReplay.parse(json.path("stats").asText("{}"))
}

/** One commit file, in the order of its lines. */
final case class LogCommit(version: Long, actions: Seq[JsonNode]) {
  private def entries(kind: String): Seq[FileEntry] =
    actions.filter(_.has(kind)).map(a => LogReplay.entry(a.get(kind)))
  lazy val adds: Seq[FileEntry] = entries("add")
  lazy val removes: Seq[FileEntry] = entries("remove")
  lazy val cdc: Seq[FileEntry] = entries("cdc")
  def commitInfo: JsonNode = actions.find(_.has("commitInfo")).map(_.get("commitInfo"))
    .getOrElse(throw new AssertionError(s"version $version has no commitInfo"))
  def operation: String = commitInfo.path("operation").asText()
  /** The operation metrics of the history, name to value. */
  def metrics: Map[String, String] = commitInfo.path("operationMetrics").properties().asScala
    .map(e => e.getKey -> e.getValue.asText()).toMap
}

/**
 * The table's state by reading `_delta_log/N.json` one line after the other: what the protocol says
 * a reader must see, with no code of Delta's, so that it can disagree with a cached snapshot.
 */
final class LogReplay(table: Path) {
  val commits: Seq[LogCommit] = {
    val dir = table.resolve("_delta_log")
    LogReplay.versions(table).map { v =>
      val lines = Files.readAllLines(dir.resolve(f"$v%020d.json")).asScala
      LogCommit(v, lines.filter(_.nonEmpty).map(LogReplay.parse).toVector)
    }
  }

  /** Live files after each version, keyed as the protocol keys them: by path and DV id. */
  lazy val states: Seq[Map[(String, Option[String]), FileEntry]] =
    commits.scanLeft(Map.empty[(String, Option[String]), FileEntry]) { (live, c) =>
      val removed = c.removes.foldLeft(live)((m, r) => m - r.key)
      c.adds.foldLeft(removed)((m, a) => m + (a.key -> a))
    }.tail

  def live: Seq[FileEntry] = states.last.values.toSeq.sortBy(_.path)
  def commit(version: Long): LogCommit = commits.find(_.version == version)
    .getOrElse(throw new AssertionError(s"no version $version"))
}

object LogReplay {
  private val mapper = new ObjectMapper()
  private val commitFile = """(\d{20})\.json""".r

  def parse(text: String): JsonNode = mapper.readTree(text)

  /** Versions with a commit file, ascending. */
  def versions(table: Path): Seq[Long] = {
    val files = Files.list(table.resolve("_delta_log"))
    try files.iterator().asScala.map(_.getFileName.toString).collect {
      case commitFile(v) => v.toLong
    }.toVector.sorted finally files.close()
  }

  private[harness] def entry(json: JsonNode): FileEntry = {
    val dv = Option(json.get("deletionVector")).filterNot(_.isNull).map { d =>
      DvRef(d.get("storageType").asText(), d.get("pathOrInlineDv").asText(),
        Option(d.get("offset")).filterNot(_.isNull).map(_.asInt()),
        d.get("sizeInBytes").asInt(), d.get("cardinality").asLong())
    }
    FileEntry(json.get("path").asText(), dv, json)
  }
}
