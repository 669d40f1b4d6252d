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

import java.net.URI

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{ChecksumFs, DelegateToFileSystem, FileStatus, LocalFileSystem, Path, RawLocalFileSystem}
import org.apache.hadoop.fs.permission.FsPermission

/**
 * The local file system without the process that Hadoop starts, where its own native library is
 * missing, for the permissions of every file that is created and for every question whether a path
 * is a symbolic link: twenty a second, each of which holds up a test by milliseconds.
 */
private[harness] class QuickRawLocal extends RawLocalFileSystem {
  override def setPermission(path: Path, permission: FsPermission): Unit = ()
  override def getFileLinkStatus(path: Path): FileStatus = getFileStatus(path)
}

/** For use as `fs.file.impl`. */
class QuickLocal extends LocalFileSystem(new QuickRawLocal)

/** The same for Hadoop's FileContext, for use as `fs.AbstractFileSystem.file.impl`. */
class QuickLocalContext(uri: URI, conf: Configuration)
  extends ChecksumFs(new DelegateToFileSystem(uri, new QuickRawLocal, conf, uri.getScheme, false) {
    override def isValidName(name: String): Boolean = true
  })

object QuickLocal {
  /** Session options under which Hadoop uses these. */
  val options: Seq[(String, String)] = Seq(
    "spark.hadoop.fs.file.impl" -> classOf[QuickLocal].getName,
    "spark.hadoop.fs.AbstractFileSystem.file.impl" -> classOf[QuickLocalContext].getName)
}
