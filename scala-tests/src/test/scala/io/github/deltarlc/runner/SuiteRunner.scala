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

package io.github.deltarlc.runner

import java.io.{BufferedReader, File, InputStreamReader, PrintWriter}
import java.lang.management.ManagementFactory
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths}
import java.util.concurrent.{ConcurrentLinkedQueue, Executors}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.scalatest.tools.Runner

/**
 * Runs ScalaTest suites in several JVMs at once: a Spark driver on tiny tables keeps one core busy.
 *
 * Arguments: `--classes DIR` of the compiled suites, `--forks N`, `--suites A,B` (full or bare
 * names; all without it), and after `--` what every ScalaTest run gets. Each JVM takes the next
 * suite when it is done with one; what a suite printed is shown whole, when it ends. Exit status 1
 * when a suite failed, a JVM died, or the JVM's JNI checks (-Xcheck:jni) had something to say.
 */
object SuiteRunner {

  /** These take longest, so they start first; the others follow by name. */
  private val longest = Seq("HistoriesSuite", "PathRuleSuite", "TransactionGateSuite",
    "CommittedVersionSuite", "RowLevelConcurrencySuite", "FaultInjectionSuite", "FaultSuite")

  def main(args: Array[String]): Unit = {
    val (own, scalatest) = args.span(_ != "--")
    val options = own.grouped(2).collect { case Array(name, value) => name -> value }.toMap
    val suites = chosen(Paths.get(options("--classes")),
      options.getOrElse("--suites", "").split(',').filter(_.nonEmpty).toSeq)
    val queue = new ConcurrentLinkedQueue(suites.asJava)
    val forks = math.min(options("--forks").toInt, suites.size)
    val pool = Executors.newFixedThreadPool(forks)
    val failed = new ConcurrentLinkedQueue[String]
    val running = (1 to forks).map { n =>
      pool.submit((() =>
        while (!queue.isEmpty) Using.resource(new Fork(n, scalatest.drop(1).toSeq))(
          _.work(queue, failed))): Runnable)
    }
    running.foreach(_.get()) // throws what a thread threw
    failed.forEach(name => Console.println(s"*** $name"))
    sys.exit(if (failed.isEmpty) 0 else 1)
  }

  private def chosen(classes: Path, names: Seq[String]): Seq[String] = {
    val all = Using.resource(Files.walk(classes)) { files =>
      files.iterator.asScala.map(classes.relativize(_).toString)
        .filter(name => name.endsWith("Suite.class"))
        .map(_.stripSuffix(".class").replace(File.separatorChar, '.')).toSeq
    }
    def bare(name: String): String = name.substring(name.lastIndexOf('.') + 1)
    val found = names match {
      case Seq() => all
      case _ => names.flatMap { name =>
        val matching = all.filter(suite => suite == name || bare(suite) == name)
        require(matching.nonEmpty, s"no suite named $name below $classes")
        matching
      }
    }
    found.sortBy { name =>
      val place = longest.indexOf(bare(name))
      (if (place < 0) longest.size else place, name)
    }
  }

  /** A JVM like this one that runs the suites it is told to. */
  private final class Fork(n: Int, scalatest: Seq[String]) extends AutoCloseable {
    private val tmp = Files.createDirectories(
      Paths.get(System.getProperty("java.io.tmpdir"), s"fork-$n"))
    private val process = new ProcessBuilder((
      Seq(System.getProperty("delta.rlc.test.java", // under an emulator not what java.home has
        Paths.get(System.getProperty("java.home"), "bin", "java").toString)) ++
        ManagementFactory.getRuntimeMXBean.getInputArguments.asScala ++
        Seq(s"-Djava.io.tmpdir=$tmp", s"-Dspark.sql.warehouse.dir=${tmp.resolve("warehouse")}",
          "-cp", System.getProperty("java.class.path"), SuiteRunnerChild.mainClass) ++
        scalatest).asJava)
      .redirectErrorStream(true).start()
    private val in = new PrintWriter(process.getOutputStream, true, UTF_8)
    private val out = new BufferedReader(new InputStreamReader(process.getInputStream, UTF_8))

    /** Hands out suites until there are none, or the JVM is gone. */
    def work(queue: ConcurrentLinkedQueue[String], failed: ConcurrentLinkedQueue[String]): Unit = {
      var suite = queue.poll()
      while (suite != null) {
        in.println(suite)
        // Ends with the suite, or with the JVM.
        val lines = Iterator.continually(out.readLine())
          .takeWhile(line => line != null && !line.startsWith(SuiteRunnerChild.end)).toVector
        val verdict = lines.find(_.startsWith(SuiteRunnerChild.verdict))
        Console.println(lines.filterNot(_.startsWith(SuiteRunnerChild.verdict)).mkString("\n"))
        lines.find(isJniComplaint).foreach(line => failed.add(s"$suite: $line"))
        if (verdict.isEmpty) failed.add(s"$suite: its JVM ended with ${process.waitFor()}")
        else if (!verdict.exists(_.endsWith(SuiteRunnerChild.passed))) failed.add(s"$suite: failed")
        suite = if (verdict.isEmpty) null else queue.poll()
      }
    }

    override def close(): Unit = {
      in.close()
      Iterator.continually(out.readLine()).takeWhile(_ != null).foreach(Console.println)
      process.waitFor()
    }
  }

  /** What -Xcheck:jni prints. */
  private def isJniComplaint(line: String): Boolean =
    line.startsWith("WARNING in native method") || line.startsWith("WARNING: JNI") ||
      line.startsWith("FATAL ERROR in native method")
}

/** The other end: suites by name on standard input, ScalaTest's arguments on the command line. */
private[runner] object SuiteRunnerChild {
  val mainClass: String = getClass.getName.stripSuffix("$")
  val verdict = "\u0001verdict "
  val end = "\u0001end"
  val passed = "passed"

  def main(args: Array[String]): Unit = {
    Iterator.continually(Console.in.readLine()).takeWhile(_ != null).foreach { suite =>
      // The suite first: a -z behind it is about that suite.
      val ok = Runner.run(Array("-s", suite) ++ args)
      // On lines of their own, whatever was printed before.
      Console.out.println(s"\n$verdict${if (ok) passed else "failed"}\n$end")
      Console.out.flush()
    }
    sys.exit(0) // Spark's threads would keep the JVM
  }
}
