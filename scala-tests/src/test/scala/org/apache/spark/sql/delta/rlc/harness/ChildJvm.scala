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

import java.io.{BufferedReader, InputStreamReader, IOException}
import java.lang.management.ManagementFactory
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Paths}
import java.util.concurrent.{LinkedBlockingQueue, TimeUnit}

import scala.jdk.CollectionConverters._

/**
 * Another JVM with the class path of this one, whose output is read line by line.
 *
 * @param mainClass what it runs
 * @param options of the JVM, after this one's `--add-opens`
 * @param without starts of class path entries that it does not get
 */
final class ChildJvm(
    mainClass: String,
    args: Seq[String] = Nil,
    options: Seq[String] = ChildJvm.small,
    without: Seq[String] = Nil) {
  import ChildJvm._

  private val process: Process = {
    val opens = ManagementFactory.getRuntimeMXBean.getInputArguments.asScala
      .filter(o => o.startsWith("--add-opens") || o.startsWith("-Dspark."))
    val classPath = System.getProperty("java.class.path").split(java.io.File.pathSeparator)
      .filterNot(entry => without.exists(entry.startsWith)).mkString(java.io.File.pathSeparator)
    // A folder of its own: the scratch space of a JVM that is killed is nobody's.
    val tmp = Files.createDirectories(RlcSession.root.resolve("child-tmp"))
    new ProcessBuilder((Seq(Paths.get(System.getProperty("java.home"), "bin", "java").toString) ++
        opens ++ Seq(s"-Djava.io.tmpdir=$tmp") ++ options ++ Seq("-cp", classPath, mainClass) ++
        args): _*)
      .redirectErrorStream(true).directory(tmp.toFile).start()
  }

  private val said = new LinkedBlockingQueue[Option[String]]
  private val all = new java.util.concurrent.ConcurrentLinkedQueue[String]

  locally {
    val reader = new Thread(() => {
      val in = new BufferedReader(new InputStreamReader(process.getInputStream, UTF_8))
      try {
        Iterator.continually(in.readLine()).takeWhile(_ != null).foreach { line =>
          all.add(line)
          said.put(Some(line))
        }
      } catch {
        case _: IOException => // it was killed
      } finally said.put(None)
    }, s"output of $mainClass")
    reader.setDaemon(true)
    reader.start()
  }

  /** Everything it said so far. */
  def output: Seq[String] = all.asScala.toSeq

  /** Waits until it says a line that starts with `start`, and gives what follows. */
  def await(start: String): String = {
    val deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(timeoutSeconds)
    Iterator.continually(said.poll(deadline - System.nanoTime(), TimeUnit.NANOSECONDS)).map {
      case null => fail(s"did not say [$start] in $timeoutSeconds s")
      case None => fail(s"ended without saying [$start]")
      case Some(line) => line
    }.find(_.startsWith(start)).get.stripPrefix(start)
  }

  /** Writes a line to its standard input. */
  def say(line: String): Unit = {
    process.getOutputStream.write(s"$line\n".getBytes(UTF_8))
    process.getOutputStream.flush()
  }

  /** SIGKILL: no shutdown hook runs, no stream is closed. */
  def kill(): Unit = {
    process.destroyForcibly()
    process.waitFor(): Unit
  }

  /** Waits for its end and gives its exit status. */
  def end(): Int = {
    if (!process.waitFor(timeoutSeconds, TimeUnit.SECONDS)) fail(s"runs for $timeoutSeconds s")
    process.exitValue()
  }

  private def fail(what: String): Nothing = {
    kill()
    throw new AssertionError(s"$mainClass $what:\n${output.takeRight(100).mkString("\n")}")
  }
}

object ChildJvm {
  /** A driver that runs for seconds, beside others: as `shortRun` in build.gradle. */
  val small: Seq[String] = Seq("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
    "-XX:ReservedCodeCacheSize=240m")

  /** Far above what any of them takes. */
  private val timeoutSeconds = 600L
}
