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

import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.logging.log4j.{Level, LogManager}
import org.apache.logging.log4j.core.{LogEvent, Logger}
import org.apache.logging.log4j.core.appender.AbstractAppender
import org.apache.logging.log4j.core.config.Property

/** What a class logs, from INFO up. */
object LogLines {

  /** Runs `body` and hands each line that `of` logs meanwhile to `seen`, on the thread that logs. */
  def listening[T](of: Class[_])(seen: String => Unit)(body: => T): T = {
    val appender = new AbstractAppender("listening", null, null, true, Property.EMPTY_ARRAY) {
      override def append(event: LogEvent): Unit = seen(event.getMessage.getFormattedMessage)
    }
    val logger = LogManager.getLogger(of).asInstanceOf[Logger]
    val level = logger.getLevel
    appender.start()
    logger.addAppender(appender)
    logger.setLevel(Level.INFO)
    try {
      body
    } finally {
      logger.setLevel(level)
      logger.removeAppender(appender)
    }
  }

  /** The lines that `of` logs while `body` runs. */
  def during(of: Class[_])(body: => Unit): Seq[String] = {
    val lines = new ConcurrentLinkedQueue[String]
    listening(of)(line => lines.add(line))(body)
    lines.asScala.toSeq
  }
}
