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
package org.apache.spark.sql.delta.rlc

import java.io.RandomAccessFile
import java.nio.file.{Files, Path}
import java.util.zip.CRC32

import io.delta.exceptions.ConcurrentAppendException

import org.apache.spark.sql.delta.rlc.harness._

/** Reading, decoding or writing goes wrong: Delta's own conflict, and nothing half done. */
class FaultSuite extends RowLevelTest {

  private def delete(ids: Int*): Statement =
    s"DELETE FROM {t} WHERE id IN (${ids.mkString(", ")})"

  /** With the file system that can fail in place of the local one. */
  private def onProbedFiles[T](f: => T): T = withConf(ProbedFileSystem.options: _*)(f)

  private def dvs(t: TestTable): Set[String] =
    TableFiles.dvFiles(t.dir).filterNot(_.startsWith("."))

  /** The file of the only live deletion vector. */
  private def liveDvFile(t: TestTable): Path = DvFiles.path(t.dir, t.replay.live.head).get

  /** Changes bytes in place; Hadoop's own checksum file goes, it would notice first. */
  private def damage(file: Path)(change: RandomAccessFile => Unit): Unit = {
    Files.deleteIfExists(file.resolveSibling(s".${file.getFileName}.crc"))
    val f = new RandomAccessFile(file.toFile, "rw")
    try change(f) finally f.close()
  }

  private def flip(f: RandomAccessFile, at: Long): Unit = {
    f.seek(at)
    val b = f.read()
    f.seek(at)
    f.write(b ^ 0x40)
  }

  /** `loser` against DELETE 2, whose deletion vector file `harm` changes: conflict by `rule`. */
  private def harmed(rule: String)(harm: (TestTable, Path) => Unit): Running = {
    val t = table()
    val a = t.begin(delete(1))
    t.run(delete(2))
    harm(t, liveDvFile(t))
    t.conflict[ConcurrentAppendException](a)
    assertRefused(a, rule)
    a
  }

  test("[S65] [trap 29] a winner's deletion vector with a flipped byte conflicts") {
    harmed("IO")((_, file) => damage(file)(f => flip(f, f.length() - 6)))
  }

  test("[S65] [trap 29] a winner's deletion vector file that is missing conflicts") {
    val a = harmed("IO")((_, file) => Files.delete(file))
    val refusal = a.resolutions.flatMap(_.refusals).head
    assert(refusal.detail.contains(".bin"), "the refusal names the file")
  }

  test("[S65] [trap 29] a winner's deletion vector file that is cut short conflicts") {
    harmed("IO")((_, file) => damage(file)(f => f.setLength(f.length() - 5)))
  }

  test("[S65] [trap 29] a winner's deletion vector that does not decode, checksum right, aborts") {
    harmed("CODEC") { (t, file) =>
      val dv = t.replay.live.head.dv.get
      damage(file) { f =>
        val bytes = new Array[Byte](dv.size)
        f.seek(dv.offset.get + 4L)
        f.readFully(bytes)
        // The number of bitmaps, after the magic number: one says it has a thousand.
        bytes(5) = 0x04
        val crc = new CRC32
        crc.update(bytes)
        f.seek(dv.offset.get + 4L)
        f.write(bytes)
        f.writeInt(crc.getValue.toInt)
      }
    }
  }

  test("[S65] [trap 29] the loser's own deletion vector, damaged before it commits, conflicts") {
    val t = table()
    val before = TableFiles.dvFiles(t.dir)
    val a = t.begin(delete(1))
    val own = (TableFiles.dvFiles(t.dir) -- before).filterNot(_.startsWith(".")).head
    t.run(delete(2))
    damage(t.dir.resolve(own))(f => flip(f, f.length() - 6))
    t.conflict[ConcurrentAppendException](a)
    assertRefused(a, "IO")
    t.check(CheckOptions.winnersOnly)
  }

  for ((name, probe) <- Seq(
      "[trap 29] a storage that cannot be read conflicts" -> StorageProbe.failing("open"),
      "[S66] [trap 29] a merged deletion vector that cannot be created conflicts" ->
        StorageProbe.failing("create"),
      "[S66] [trap 27] a merged deletion vector whose upload fails at the end conflicts" ->
        StorageProbe.Lost)) {
    test(name) {
      onProbedFiles {
        val t = table()
        val a = t.begin(delete(1))
        t.run(delete(2))
        ProbedFileSystem.watch(probe)(t.conflict[ConcurrentAppendException](a))
        assertRefused(a, "IO")
        t.check(CheckOptions.winnersOnly)
      }
    }
  }

  test("[S66] a merge that cannot be written in the second pass leaves nothing of the first") {
    onProbedFiles {
      val t = table()
      val a = t.begin(delete(1))
      t.run(delete(2))
      @volatile var failing = false
      a.afterPass(1) {
        t.run(delete(3))
        failing = true
      }
      ProbedFileSystem.watch(StorageProbe.failing("create", failing)) {
        t.conflict[ConcurrentAppendException](a)
      }
      assert(a.resolutions.map(_.rebased) === Seq(true, false))
      t.check(CheckOptions.winnersOnly)
    }
  }

  test("[trap 28] what a failed statement cleans up is its own and named by nobody") {
    val t = table()
    val a = t.begin(delete(1))
    t.run(delete(2))
    a.afterPass(1)(t.run(delete(1)))
    val before = TableFiles.dvFiles(t.dir)
    t.conflict[ConcurrentAppendException](a)
    assert((before -- TableFiles.dvFiles(t.dir)).isEmpty, "files that were there are gone")
    t.check(CheckOptions.winnersOnly)
  }

  test("[S44] each deletion vector file is opened once in a pass") {
    onProbedFiles {
      val t = table(TableSpec.mixedFiles)
      val a = t.begin(delete(0, 1))
      (1 to 5).foreach(i => t.run(delete(2 * i, 2 * i + 1)))
      val own = dvs(t) -- t.replay.commits.flatMap(_.adds).flatMap(DvFiles.path(t.dir, _))
        .map(_.getFileName.toString)
      val last = t.replay.live.flatMap(DvFiles.path(t.dir, _)).distinct
      val (_, calls) = ProbedFileSystem.watch()(t.commit(a))
      assert(calls.count(_.operation == "open") === own.size + last.size)
      assertResolved(a, merged = 2, untouched = 0)
    }
  }

  test("more deletion vector bytes than allowed conflicts, and reads none") {
    withConf("spark.databricks.delta.rowLevelConcurrency.maxDvBytes" -> "1") {
      val t = loserAborts[ConcurrentAppendException](
        TableSpec(), delete(1), Seq(delete(2)), refusedBy = "BUDGET")
      assert(t.ids().size === 9)
    }
  }

  // ---- the answer of a commit that landed is lost

  private def lostResponse(idempotent: Boolean): (TestTable, Running, Outcome) =
    withConf(ProbedFileSystem.options :+
      "spark.databricks.delta.commit.idempotencyCheck.enabled" -> idempotent.toString: _*) {
      val t = table()
      val a = t.begin(delete(1))
      t.run(delete(2))
      val lost = new StorageProbe.LostAnswer(t.version + 1)
      val (o, _) = ProbedFileSystem.watch(lost)(a.finish())
      assert(lost.happened)
      (t, a, o)
    }

  test("[S68] a commit whose answer was lost is found again, once") {
    assume(DeltaCan.findItsCommit)
    val (t, a, o) = lostResponse(idempotent = true)
    o.error.foreach(e => fail("should have committed", e))
    assert(o.versions === Seq(2))
    assert(a.resolutions.head.merged.size === 1, s"${a.resolutions}")
    assert(t.ids() === Seq(0, 3, 4, 5, 6, 7, 8, 9))
    t.check(CheckOptions(oracle = false))
  }

  test("[S68] [trap 28] without that check it fails as on stock, and the landed commit keeps its " +
      "deletion vector") {
    val (t, _, o) = lostResponse(idempotent = false)
    assert(o.error.map(_.getClass) === Some(classOf[ConcurrentAppendException]))
    assert(o.versions === Seq(2))
    assert(t.ids() === Seq(0, 3, 4, 5, 6, 7, 8, 9))
    // Nobody came to write its checksum file; what it names is there.
    t.replay.live.foreach(e => assert(DvFiles.positions(t.dir, e) === Seq(1, 2)))
  }

  // ---- no native library

  test("[S67] [G13] without the native library statements conflict as on stock; it is said once") {
    val other = new ChildJvm(NativeAbsent.getClass.getName.stripSuffix("$"),
      options = ChildJvm.small :+ "-Dio.github.deltarlc.native.path=/nowhere/libdelta_rlc.so")
    other.end()
    val lines = other.output
    assert(lines.count(_.startsWith("RACE ConcurrentAppendException")) === 2, lines.mkString("\n"))
    val said = lines.filter(_.contains("stays off in this JVM"))
    assert(said.size === 1, lines.mkString("\n"))
    assert(said.head.contains("/nowhere/libdelta_rlc.so"), "it says what was looked for")
  }
}

/** Two races in a JVM of its own, for [[FaultSuite]]. */
object NativeAbsent {
  def main(args: Array[String]): Unit = {
    for (_ <- 1 to 2) {
      val t = new TestTable(TableSpec())
      val a = t.begin("DELETE FROM {t} WHERE id = 1")
      t.run("DELETE FROM {t} WHERE id = 2")
      Console.out.println(s"RACE ${a.finish().error.fold("none")(_.getClass.getSimpleName)}")
    }
    System.exit(0)
  }
}
