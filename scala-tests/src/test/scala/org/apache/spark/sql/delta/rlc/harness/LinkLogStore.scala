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

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}
import java.util.{Iterator => JIterator, UUID}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/**
 * A log on a local file system that several JVMs may write. Delta's own store for it is safe inside
 * one JVM alone: it asks whether the version is there and then renames over it, so that of two JVMs
 * which ask at the same time the second one replaces the first one's commit. link(2) fails when
 * there is something, and what it puts in place is whole.
 */
class LinkLogStore(conf: Configuration) extends HookedLogStore(conf) {
  override protected def writeNow(
      path: Path,
      actions: JIterator[String],
      overwrite: java.lang.Boolean,
      hadoopConf: Configuration): Unit = {
    if (overwrite) {
      super.writeNow(path, actions, overwrite, hadoopConf)
    } else {
      val target = Paths.get(path.toUri.getPath)
      val whole = target.resolveSibling(s".${target.getFileName}.${UUID.randomUUID()}.tmp")
      try {
        Files.write(whole, actions.asScala.mkString("", "\n", "\n").getBytes(UTF_8))
        Files.createLink(target, whole): Unit
      } finally Files.deleteIfExists(whole): Unit
    }
  }
}
