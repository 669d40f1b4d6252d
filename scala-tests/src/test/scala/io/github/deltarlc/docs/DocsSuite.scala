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
package io.github.deltarlc.docs

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path, Paths}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.scalatest.funsuite.AnyFunSuite

/** What the documents say can be followed: links lead somewhere, commands and confs exist. */
class DocsSuite extends AnyFunSuite {

  private val root = Paths.get(System.getProperty("delta.rlc.test.root"))

  private val documents: Map[Path, String] = {
    val docs = Using.resource(Files.list(root.resolve("docs")))(_.iterator.asScala.toSeq)
    (docs ++ Using.resource(Files.list(root))(_.iterator.asScala.toSeq))
      .filter(_.toString.endsWith(".md"))
      .map(file => file -> new String(Files.readAllBytes(file), UTF_8)).toMap
  }

  private def text(path: String): String = new String(Files.readAllBytes(root.resolve(path)), UTF_8)

  /** As the places where documents are read make an anchor of a heading. */
  private def anchors(markdown: String): Set[String] =
    "(?m)^#+ (.*)$".r.findAllMatchIn(markdown).map { heading =>
      heading.group(1).toLowerCase(java.util.Locale.ROOT)
        .replaceAll("[^\\w\\- ]", "").replace(' ', '-')
    }.toSet

  test("every link between documents leads to a file and a heading") {
    val broken = for {
      (file, markdown) <- documents.toSeq
      link <- "\\]\\(([^)\\s]+)\\)".r.findAllMatchIn(markdown).map(_.group(1))
      if !link.contains("://")
      path = link.takeWhile(_ != '#')
      anchor = link.drop(path.length + 1)
      target = if (path.isEmpty) file else file.getParent.resolve(path).normalize
      if !Files.exists(target) ||
        anchor.nonEmpty && !documents.get(target).exists(anchors(_).contains(anchor))
    } yield s"${root.relativize(file)}: $link"
    assert(broken === Nil)
    assert(documents.size > 5, "the documents were found")
  }

  test("every ./dev command in a document exists, and every command is in one") {
    val commands = "(?m)^cmd_([a-z0-9-]+)\\(\\)".r.findAllMatchIn(text("dev"))
      .map(_.group(1)).toSet
    val named = documents.values.flatMap("\\./dev ([a-z][a-z0-9-]*)".r.findAllMatchIn(_)
      .map(_.group(1))).toSet
    assert(named.diff(commands) === Set.empty, "named in a document, unknown to ./dev")
    assert(commands.diff(named) === Set.empty, "known to ./dev, in no document")
  }

  test("every conf of the library is in the README, and every conf in a document exists") {
    val prefix = "rowLevelConcurrency"
    val source = text(
      "jvm/src/main/scala/org/apache/spark/sql/delta/rlc/RowLevelConcurrencyConf.scala")
    val confs = s"buildConf\\(\"$prefix\\.(\\w+)\"\\)".r.findAllMatchIn(source)
      .map(_.group(1)).toSet
    val readme = documents(root.resolve("README.md"))
    assert(confs.filterNot(conf => readme.contains(s"`.$conf`")) === Set.empty, "not in the README")
    val named = documents.values.flatMap(
      s"databricks\\.delta\\.$prefix\\.(\\w+)".r.findAllMatchIn(_).map(_.group(1))).toSet
    assert(named.diff(confs) === Set.empty, "in a document only")
    assert(confs.size > 2, "the confs were found")
  }
}
