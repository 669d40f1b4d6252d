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

import java.util.{Iterator => JIterator}
import java.util.concurrent.atomic.AtomicReference

import io.delta.storage.LocalLogStore
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/**
 * The log store of the local file system, which can let something happen right before a commit is
 * written: before its lock is taken, where a ProbedFileSystem would hold up the winner. Its own
 * calls go through Hadoop's FileSystem, where that sees them.
 */
class HookedLogStore(conf: Configuration) extends LocalLogStore(conf) {
  override def write(
      path: Path,
      actions: JIterator[String],
      overwrite: java.lang.Boolean,
      hadoopConf: Configuration): Unit = {
    HookedLogStore.takeHook(path.getName).foreach(_.apply())
    writeNow(path, actions, overwrite, hadoopConf)
  }

  protected def writeNow(
      path: Path,
      actions: JIterator[String],
      overwrite: java.lang.Boolean,
      hadoopConf: Configuration): Unit = super.write(path, actions, overwrite, hadoopConf)
}

object HookedLogStore {
  private val hook = new AtomicReference[Option[(String, () => Unit)]](None)

  private def takeHook(name: String): Option[() => Unit] = {
    val set = hook.get()
    set.collect { case (`name`, f) if hook.compareAndSet(set, None) => f }
  }

  /** Runs `body` with `f` run once, before the first attempt to write `version`; fails without. */
  def beforeWriting[T](version: Long)(f: => Unit)(body: => T): T = {
    val name = f"$version%020d.json"
    hook.set(Some((name, () => f)))
    try {
      val result = body
      if (hook.get().nonEmpty) throw new AssertionError(s"nobody wrote $name")
      result
    } finally hook.set(None)
  }
}
