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
import java.nio.file.{Files, Paths, StandardCopyOption}
import java.util.{Iterator => JIterator}

import scala.util.Try

import io.delta.storage.LocalLogStore
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession

/**
 * The log store of the local file system that lets the next commit of a table lose: a statement in
 * the table's folder, as `_winner.sql`, runs from start to end right before the commit is written.
 *
 * For processes in which no test can hold a statement: PySpark, Spark Connect, a Thrift server. Put
 * into a jar by itself, so it uses nothing of the test sources. `commitLock.enabled` must be false,
 * or the winner waits for the lock that the commit in progress holds.
 */
class WinnerLogStore(conf: Configuration) extends LocalLogStore(conf) {
  override def write(
      path: Path,
      actions: JIterator[String],
      overwrite: java.lang.Boolean,
      hadoopConf: Configuration): Unit = {
    val table = Paths.get(path.getParent.getParent.toUri.getPath)
    val order = table.resolve("_winner.sql")
    if (Files.exists(order)) {
      // Taken away first: the winner commits through here too.
      val taken = Files.move(order, table.resolve("_winner.done"), StandardCopyOption.ATOMIC_MOVE)
      run(new String(Files.readAllBytes(taken), UTF_8))
    }
    super.write(path, actions, overwrite, hadoopConf)
  }

  // On a thread of its own, as this one carries the loser's session and observer.
  private def run(sql: String): Unit = {
    val session = SparkSession.getActiveSession.orElse(SparkSession.getDefaultSession).get
    var result: Try[Unit] = null
    val thread = new Thread(() => {
      result = Try {
        val own = session.newSession()
        SparkSession.setActiveSession(own)
        own.sql(sql).collect()
        ()
      }
    }, "winner")
    thread.start()
    thread.join()
    result.get
  }
}
