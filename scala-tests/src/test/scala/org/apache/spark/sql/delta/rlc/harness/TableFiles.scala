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

import java.nio.file.{Files, Path, StandardCopyOption}
import java.util.Comparator

import scala.jdk.CollectionConverters._

/** Plain file work on local table folders, without Hadoop or Delta in between. */
object TableFiles {

  /** Copies a folder; times stay, since the log's timestamps are those of its files. */
  def copy(from: Path, to: Path): Unit = {
    walk(from).foreach { p =>
      val target = to.resolve(from.relativize(p).toString)
      if (Files.isDirectory(p)) Files.createDirectories(target)
      else Files.copy(p, target, StandardCopyOption.COPY_ATTRIBUTES)
    }
  }

  def delete(dir: Path): Unit = if (Files.exists(dir)) {
    val all = Files.walk(dir)
    try all.sorted(Comparator.reverseOrder[Path]()).forEach(p => Files.deleteIfExists(p))
    finally all.close()
  }

  /** Every file below `dir`, relative to it. */
  def list(dir: Path): Set[String] =
    walk(dir).filter(Files.isRegularFile(_)).map(dir.relativize(_).toString).toSet

  /** The deletion vector files of a table, relative to it. */
  def dvFiles(dir: Path): Set[String] =
    list(dir).filter(f => f.endsWith(".bin") && !f.startsWith("_delta_log"))

  private def walk(dir: Path): Seq[Path] = {
    val all = Files.walk(dir)
    try all.iterator().asScala.toVector finally all.close()
  }
}
