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

package io.github.deltarlc.vectors

import java.io.File
import java.nio.{ByteBuffer, ByteOrder}
import java.nio.file.Files
import java.util.{LinkedHashMap => JMap}

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Random

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.sql.delta.deletionvectors.{RoaringBitmapArray, RoaringBitmapArrayFormat}

/**
 * Writes deletion vectors which Delta's own classes made, for the Rust tests: no byte of them is
 * ours, and what they hold is written beside them as a plain list.
 *
 * {{{
 *   index.json    [{name, file, cardinality, values_file, magic: "portable" | "native"}]
 *   triples.json  [{name, base | null, current | null, winner, numRecords | null, verdict,
 *                   merged_file | null}]
 *   NAME.bin      the bitmap, from its magic number on
 *   NAME.u64      its rows, ascending, 8 bytes each, little endian
 *   merged/NAME.bin  what Delta would write for the union: run-optimised, portable
 * }}}
 *
 * The verdict of a triple follows from Delta's `and`, `andNot` and `or` alone, and each triple breaks
 * at most one rule, so that no order of the rules is assumed. Everything is derived from fixed seeds:
 * two runs write the same bytes.
 */
object GenerateVectors {

  def main(args: Array[String]): Unit = {
    require(args.length == 1, "usage: GenerateVectors DIRECTORY")
    val out = new File(args(0))
    deleteRecursively(out)
    val writer = new VectorWriter(out)
    Shapes.single(writer)
    Shapes.containerPairs(writer)
    Shapes.wholeFiles(writer)
    Shapes.refusals(writer)
    writer.finish()
  }

  private def deleteRecursively(file: File): Unit = {
    Option(file.listFiles()).foreach(_.foreach(deleteRecursively))
    Files.deleteIfExists(file.toPath)
  }
}

/** Collects the vectors and writes them; bitmaps are known by name. */
private class VectorWriter(out: File) {
  private val index = mutable.LinkedHashMap.empty[String, JMap[String, Any]]
  private val triples = mutable.LinkedHashMap.empty[String, JMap[String, Any]]
  private val bitmaps = mutable.Map.empty[String, RoaringBitmapArray]
  Files.createDirectories(new File(out, "merged").toPath)

  /**
   * Writes one bitmap.
   *
   * @param optimize run-optimised, as Delta does before it writes; without, as a foreign writer might
   */
  def bitmap(
      name: String,
      values: Iterable[Long],
      optimize: Boolean = true,
      native: Boolean = false): String = {
    val bitmap = new RoaringBitmapArray
    values.foreach(bitmap.add)
    if (optimize) bitmap.runOptimize()
    val format =
      if (native) RoaringBitmapArrayFormat.Native else RoaringBitmapArrayFormat.Portable
    require(!index.contains(name), s"two bitmaps named $name")
    write(s"$name.bin", bitmap.serializeAsByteArray(format))
    val rows = bitmap.toArray
    val list = ByteBuffer.allocate(8 * rows.length).order(ByteOrder.LITTLE_ENDIAN)
    rows.foreach(list.putLong(_))
    write(s"$name.u64", list.array())
    index(name) = record(
      "name" -> name,
      "file" -> s"$name.bin",
      "cardinality" -> bitmap.cardinality,
      "values_file" -> s"$name.u64",
      "magic" -> (if (native) "native" else "portable"))
    bitmaps(name) = bitmap
    name
  }

  /** Writes one triple of bitmaps that are already written, with the verdict that Delta's sets give. */
  def triple(
      name: String,
      base: Option[String],
      current: Option[String],
      winner: String,
      numRecords: Option[Long]): Unit = {
    require(!triples.contains(name), s"two triples named $name")
    val verdict = verdictOf(name, base.map(bitmaps), current.map(bitmaps), bitmaps(winner), numRecords)
    val merged = if (verdict == "MERGED") {
      val union = bitmaps(current.get).copy()
      union.or(bitmaps(winner))
      union.runOptimize()
      write(s"merged/$name.bin", union.serializeAsByteArray(RoaringBitmapArrayFormat.Portable))
      s"merged/$name.bin"
    } else {
      null
    }
    triples(name) = record(
      "name" -> name,
      "base" -> base.orNull,
      "current" -> current.orNull,
      "winner" -> winner,
      "numRecords" -> numRecords.map(Long.box).orNull,
      "verdict" -> verdict,
      "merged_file" -> merged)
  }

  def finish(): Unit = {
    json("index.json", index.values)
    json("triples.json", triples.values)
    System.err.println(s"${index.size} bitmaps and ${triples.size} triples in $out")
  }

  private def verdictOf(
      name: String,
      base: Option[RoaringBitmapArray],
      current: Option[RoaringBitmapArray],
      winner: RoaringBitmapArray,
      numRecords: Option[Long]): String = {
    val b = base.getOrElse(new RoaringBitmapArray)
    def minus(x: RoaringBitmapArray, y: RoaringBitmapArray): RoaringBitmapArray = {
      val r = x.copy()
      r.andNot(y)
      r
    }
    val broken = mutable.Buffer.empty[String]
    if (!minus(b, winner).isEmpty) broken += "NOT_AN_EXTENSION"
    current.foreach { c =>
      val both = c.copy()
      both.and(winner)
      if (!minus(b, c).isEmpty) broken += "BASE_NOT_IN_CURRENT"
      if (!minus(both, b).isEmpty) broken += "OVERLAP"
      if (minus(b, c).isEmpty && minus(c, b).isEmpty) broken += "NOTHING_NEW"
    }
    require(broken.size <= 1, s"$name is ambiguous: ${broken.mkString(", ")}")
    broken.headOption.getOrElse {
      current.fold("UNTOUCHED_OK") { c =>
        val union = c.copy()
        union.or(winner)
        if (numRecords.contains(union.cardinality)) "COVERS_FILE" else "MERGED"
      }
    }
  }

  private def record(fields: (String, Any)*): JMap[String, Any] = {
    val map = new JMap[String, Any]
    fields.foreach { case (k, v) => map.put(k, v) }
    map
  }

  private def json(name: String, records: Iterable[JMap[String, Any]]): Unit = {
    val mapper = new ObjectMapper
    val lines = records.map(mapper.writeValueAsString(_)).mkString("[\n", ",\n", "\n]\n")
    write(name, lines.getBytes("UTF-8"))
  }

  private def write(name: String, bytes: Array[Byte]): Unit =
    Files.write(new File(out, name).toPath, bytes)
}

/** The shapes; each name says what is special about it. */
private object Shapes {
  private val Bucket = 1L << 32
  private val Container = 1 << 16

  def single(w: VectorWriter): Unit = {
    w.bitmap("empty", Nil)
    w.bitmap("one-row-0", Seq(0L))
    w.bitmap("one-row-65535", Seq(65535L))
    w.bitmap("one-row-65536", Seq(65536L))
    for (n <- Seq(4095, 4096, 4097)) {
      val values = sample(seed = n, n, Container)
      w.bitmap(s"container-of-$n", values)
      w.bitmap(s"container-of-$n-native", values, native = true)
      // One run: without run optimisation, an array or a bitset that is dense.
      w.bitmap(s"first-$n-rows", (0L until n.toLong))
      w.bitmap(s"first-$n-rows-unoptimised", (0L until n.toLong), optimize = false)
    }
    w.bitmap("full-container", 0L until Container.toLong)
    w.bitmap("full-container-unoptimised", 0L until Container.toLong, optimize = false)
    w.bitmap("full-but-one", (0L until Container.toLong).filter(_ != 12345L), optimize = false)
    w.bitmap("every-second-row", (0L until 3L * Container).filter(_ % 2 == 0))
    w.bitmap("short-runs", (0L until 4L * Container).filter(_ % 40 < 9))
    w.bitmap("long-runs", (0L until 8L * Container).filter(_ % 30000 < 20000))
    w.bitmap("three-containers-with-a-run", runsIn(3)) // below four a run header has no offsets
    w.bitmap("four-containers-with-a-run", runsIn(4))
    w.bitmap("mixed-kinds", mixed(0L))
    w.bitmap("mixed-kinds-native", mixed(0L), native = true)
    w.bitmap("mixed-kinds-unoptimised", mixed(0L), optimize = false)
    w.bitmap("around-2-to-32", Seq(Bucket - 2, Bucket - 1, Bucket, Bucket + 1))
    w.bitmap("only-beyond-2-to-32", Seq(Bucket + 7, Bucket + 70000))
    // Delta writes an empty bitmap for each bucket in between.
    val gaps = Seq(5L, 3 * Bucket + 1, 3 * Bucket + 65536, 7 * Bucket + 9)
    w.bitmap("gap-buckets", gaps)
    w.bitmap("gap-buckets-native", gaps, native = true)
    w.bitmap("gap-buckets-mixed", mixed(0L) ++ mixed(2 * Bucket) ++ mixed(5 * Bucket))
    w.bitmap("many-buckets", (0L until 200L).map(i => i * Bucket + i))
    w.bitmap("sparse-100-of-1m", sample(1, 100, 1000000))
    w.bitmap("random-5-percent-of-1m", sample(2, 50000, 1000000))
    w.bitmap("random-20000-of-5e9", sampleLong(3, 20000, 5000000000L))
  }

  /**
   * Every kind of container on one side with every kind on the other, with and without a base. The two
   * sides interleave: one has the even blocks of 32 rows, the other the odd ones, the base a few of
   * either.
   */
  def containerPairs(w: VectorWriter): Unit = {
    def side(odd: Boolean): Seq[Long] =
      (0L until Container.toLong).filter(r => ((r >> 5) & 1) == (if (odd) 1 else 0) && (r >> 6) % 4 != 3)
    // The base's rows are in neither side's own.
    val baseRows = (0L until Container.toLong).filter(r => (r >> 6) % 4 == 3)
    val kinds: Seq[(String, Seq[Long] => Seq[Long])] = Seq(
      "one" -> (rows => Seq(rows(777))),
      "array" -> (rows => pick(11, 300, rows)),
      "array4095" -> (rows => pick(12, 4095, rows)),
      "array4096" -> (rows => pick(13, 4096, rows)),
      "bitset4097" -> (rows => pick(14, 4097, rows)),
      "bitset" -> (rows => pick(15, 15000, rows)),
      "runs" -> (rows => rows.filter(r => (r >> 6) % 8 < 3)),
      "all" -> (rows => rows))
    val bases: Seq[(String, Seq[Long])] = Seq(
      "none" -> Nil,
      "array" -> pick(21, 500, baseRows),
      "bitset" -> pick(22, 8000, baseRows),
      "runs" -> baseRows)
    for ((baseKind, base) <- bases) {
      val baseName = if (base.isEmpty) None else Some(w.bitmap(s"pair-base-$baseKind", base))
      val sides = for (odd <- Seq(false, true); (kind, of) <- kinds) yield {
        val name = s"pair-$baseKind-${if (odd) "win" else "cur"}-$kind"
        (odd, kind) -> w.bitmap(name, base ++ of(side(odd)))
      }
      val byKind = sides.toMap
      for ((cur, ofCur) <- kinds; (win, ofWin) <- kinds) {
        val name = s"pair-$baseKind-$cur-$win"
        w.triple(name, baseName, Some(byKind((false, cur))), byKind((true, win)), Some(Container.toLong))
        // The same with one row in common: the first, the last or one in the middle of the winner's.
        val theirs = ofWin(side(odd = true))
        val place = Math.floorMod(name.hashCode, 3)
        val common = theirs(Seq(0, theirs.size / 2, theirs.size - 1)(place))
        val both = w.bitmap(s"$name-overlapping", base ++ ofCur(side(odd = false)) :+ common)
        w.triple(s"$name-overlap", baseName, Some(both), byKind((true, win)), Some(Container.toLong))
      }
    }
  }

  /** Files of awkward lengths, whole files deleted from both ends, and many containers and buckets. */
  def wholeFiles(w: VectorWriter): Unit = {
    for (rows <- Seq(1L, 2L, 65535L, 65536L, 65537L)) {
      val first = w.bitmap(s"file-of-$rows-first", Seq(0L))
      if (rows > 1) {
        val last = w.bitmap(s"file-of-$rows-last", Seq(rows - 1))
        w.triple(s"file-of-$rows-first-and-last", None, Some(first), last, Some(rows))
        val rest = w.bitmap(s"file-of-$rows-all-but-the-first", 1L until rows)
        w.triple(s"file-of-$rows-covered", None, Some(first), rest, Some(rows))
        w.triple(s"file-of-$rows-covered-length-unknown", None, Some(first), rest, None)
      }
    }
    val half = w.bitmap("first-half-of-1m", 0L until 500000L)
    val other = w.bitmap("second-half-of-1m", 500000L until 1000000L)
    w.triple("halves-of-1m", None, Some(half), other, Some(1000000L))
    w.triple("halves-of-1m-and-one", None, Some(half), other, Some(1000001L))

    disjoint(w, "dense-2m", 31, base = 100000, own = 50000, win = 50000, rows = 2000000L)
    disjoint(w, "sparse-1m", 32, base = 10, own = 100, win = 100, rows = 1000000L)
    disjoint(w, "huge-5e9", 33, base = 20000, own = 5000, win = 5000, rows = 5000000000L)
    disjoint(w, "no-base-12e9", 34, base = 0, own = 300, win = 300, rows = 12000000000L)
    disjoint(w, "large-base-small-change", 35, base = 200000, own = 50, win = 50, rows = 1000000L)

    val curMixed = w.bitmap("mixed-both-ends-cur", mixed(0L) ++ mixed(4 * Bucket))
    val winMixed = w.bitmap("mixed-both-ends-win", mixed(2 * Bucket))
    w.triple("mixed-in-other-buckets", None, Some(curMixed), winMixed, Some(5 * Bucket))
    w.triple("mixed-in-other-buckets-swapped", None, Some(winMixed), curMixed, Some(5 * Bucket))
    val nativeCur = w.bitmap("native-cur", mixed(0L), native = true)
    w.triple("native-and-portable", None, Some(nativeCur), winMixed, None)
    w.triple("portable-and-native", None, Some(winMixed), nativeCur, None)
    val raw = w.bitmap("unoptimised-cur", mixed(0L), optimize = false)
    w.triple("unoptimised-and-portable", None, Some(raw), winMixed, None)
    // Two sides that become one run only together.
    val even = w.bitmap("alternate-even", (0L until 2L * Container).filter(_ % 2 == 0))
    val odd = w.bitmap("alternate-odd", (0L until 2L * Container).filter(_ % 2 == 1))
    w.triple("alternate-rows-become-runs", None, Some(even), odd, Some(3L * Container))
    w.triple("alternate-rows-cover", None, Some(even), odd, Some(2L * Container))
  }

  /** One rule broken each, beside the overlaps above. */
  def refusals(w: VectorWriter): Unit = {
    val base = w.bitmap("rule-base", sample(41, 3000, 300000))
    val rows = sample(41, 3000, 300000)
    val spare = (0L until 300000L).filterNot(rows.toSet).take(5000)
    val grown = w.bitmap("rule-grown", rows ++ spare.take(2000))
    val grownOther = w.bitmap("rule-grown-other", rows ++ spare.drop(2000))
    val lacksFirst = w.bitmap("rule-lacks-first", rows.drop(1) ++ spare.take(2000))
    val lacksLast = w.bitmap("rule-lacks-last", rows.dropRight(1) ++ spare.drop(2000))
    val n = Some(300000L)
    w.triple("winner-lacks-the-last-of-the-base", Some(base), Some(grown), lacksLast, n)
    w.triple("untouched-winner-lacks-the-last-of-the-base", Some(base), None, lacksLast, n)
    w.triple("current-lacks-the-first-of-the-base", Some(base), Some(lacksFirst), grownOther, n)
    w.triple("current-is-the-base", Some(base), Some(base), grown, n)
    w.triple("untouched-winner-is-the-base", Some(base), None, base, n)
    w.triple("untouched-winner-grew", Some(base), None, grown, n)
    w.triple("untouched-without-a-base", None, None, grown, None)
    w.triple("winner-is-the-base", Some(base), Some(grown), base, n)
    val empty = w.bitmap("rule-empty", Nil)
    w.triple("base-is-there-but-empty", Some(empty), Some(grown), w.bitmap("rule-spare", spare.drop(2000)), n)
    // The same rows as one run on one side and row by row on the other.
    val run = w.bitmap("same-rows-as-run", 0L until 5000L)
    val raw = w.bitmap("same-rows-as-bitset", 0L until 5000L, optimize = false)
    w.triple("same-rows-other-kind", None, Some(run), raw, n)
    w.triple("current-is-the-base-in-another-kind", Some(run), Some(raw), run, n)
  }

  private def disjoint(
      w: VectorWriter,
      name: String,
      seed: Long,
      base: Int,
      own: Int,
      win: Int,
      rows: Long): Unit = {
    val all = new Random(seed).shuffle(sampleLong(seed, base + own + win, rows))
    val (b, rest) = all.splitAt(base)
    val (o, t) = rest.splitAt(own)
    val baseName = if (b.isEmpty) None else Some(w.bitmap(s"$name-base", b))
    val cur = w.bitmap(s"$name-cur", b ++ o)
    val winner = w.bitmap(s"$name-win", b ++ t)
    w.triple(s"$name-disjoint", baseName, Some(cur), winner, Some(rows))
    val last = w.bitmap(s"$name-cur-overlapping-last", b ++ o :+ t.max)
    w.triple(s"$name-overlap-last", baseName, Some(last), winner, Some(rows))
    val first = w.bitmap(s"$name-cur-overlapping-first", b ++ o :+ t.min)
    w.triple(s"$name-overlap-first", baseName, Some(first), winner, Some(rows))
  }

  /** Twelve containers in one bucket, neighbours of different kinds, one absent, the last one short. */
  private def mixed(start: Long): Seq[Long] = {
    def at(container: Int, rows: Iterable[Long]): Iterable[Long] = rows.map(start + container * Container + _)
    (at(0, sample(51, 10, Container)) ++
      at(1, sample(52, 20000, Container)) ++
      at(2, 100L until 60000L) ++
      at(3, 0L until Container.toLong) ++
      at(4, sample(53, 4096, Container)) ++
      at(6, sample(54, 4097, Container)) ++
      at(7, (0L until Container.toLong).filter(_ % 100 < 30)) ++
      at(8, Seq(0L)) ++
      at(9, Seq(65535L)) ++
      at(10, (0L until Container.toLong).filter(_ % 2 == 1)) ++
      at(11, Seq(0L, 1L, 2L, 3L))).toSeq
  }

  private def runsIn(containers: Int): Seq[Long] =
    (0 until containers).flatMap(c => (1000L until 3000L).map(c.toLong * Container + _))

  private def sample(seed: Long, n: Int, below: Int): Seq[Long] = sampleLong(seed, n, below.toLong)

  /** `n` different rows below `below`, ascending. */
  private def sampleLong(seed: Long, n: Int, below: Long): Seq[Long] = {
    val random = new java.util.SplittableRandom(seed)
    val rows = new java.util.TreeSet[java.lang.Long]
    while (rows.size < n) rows.add(random.nextLong(below))
    rows.asScala.map(_.longValue).toSeq
  }

  private def pick(seed: Long, n: Int, rows: Seq[Long]): Seq[Long] =
    new Random(seed).shuffle(rows).take(n).sorted
}
