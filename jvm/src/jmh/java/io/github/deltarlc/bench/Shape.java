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

package io.github.deltarlc.bench;

import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.function.LongConsumer;
import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray;
import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArrayFormat;

/**
 * The inputs of the benchmarks. Unless a shape says otherwise, half of the deleted rows were in the
 * base and each side added a quarter, so that the merged vector has as many rows as the name says.
 */
public enum Shape {
  SPARSE_100("100 deletes in 1M rows", 6),
  SPARSE_10K("10,000 in 1M", 20),
  DENSE_5PCT("5% of 10M, random", 8),
  LONG_RUNS("long runs (20,000 rows) in 10M", 10),
  SHORT_RUNS("short runs (8 rows) in 10M", 10),
  ACROSS_2_32("across 2^32", 16),
  HUGE("5e9 rows, 500k deletes", 12),
  LARGE_1PCT("200M rows, 1%", 15),
  MANY_FILES("1,000 files with 50 each, per file", 10),
  LARGE_BASE("base 20% of 10M, 100 new", 12),
  CONFLICT_LAST("conflict in the last container (dense)", 8),
  CONFLICT_FIRST("conflict in the first container (dense)", 500);

  final String title;
  /** What issue 5 asks for: times Delta's JVM code. */
  final double goal;

  Shape(String title, double goal) {
    this.title = title;
    this.goal = goal;
  }

  /** One file: its three deletion vectors as Delta wrote them, and how many rows each has. */
  static final class Input {
    final byte[] base;
    final byte[] current;
    final byte[] winner;
    final long baseRows;
    final long currentRows;
    final long winnerRows;

    Input(Sides sides) {
      baseRows = sides.base.cardinality();
      currentRows = sides.current.cardinality();
      winnerRows = sides.winner.cardinality();
      base = bytes(sides.base);
      current = bytes(sides.current);
      winner = bytes(sides.winner);
    }
  }

  private static final class Sides {
    final RoaringBitmapArray base = new RoaringBitmapArray();
    final RoaringBitmapArray current = new RoaringBitmapArray();
    final RoaringBitmapArray winner = new RoaringBitmapArray();

    void base(long row) {
      base.add(row);
      current.add(row);
      winner.add(row);
    }

    /** To the base, the loser or the winner, in the proportions 2 : 1 : 1. */
    void deal(long row, int which) {
      switch (which & 3) {
        case 0:
          current.add(row);
          break;
        case 1:
          winner.add(row);
          break;
        default:
          base(row);
      }
    }
  }

  /** A file of which base and both sides deleted one row each: no benchmark of its own, see the crossing. */
  static final Input ONE_ROW = new Input(rows(1, 2, 3));

  private static Sides rows(long base, long current, long winner) {
    Sides s = new Sides();
    s.base(base);
    s.current.add(current);
    s.winner.add(winner);
    return s;
  }

  /** The files of one operation: one, or 1,000. */
  Input[] inputs() {
    int n = this == MANY_FILES ? 1000 : 1;
    Input[] inputs = new Input[n];
    for (int i = 0; i < n; i++) {
      inputs[i] = new Input(sides(new SplittableRandom(7 + i)));
    }
    return inputs;
  }

  boolean isConflict() {
    return this == CONFLICT_FIRST || this == CONFLICT_LAST;
  }

  private Sides sides(SplittableRandom random) {
    Sides s = new Sides();
    switch (this) {
      case SPARSE_100:
        distinct(random, 100, 0, 1_000_000, row -> s.deal(row, random.nextInt()));
        break;
      case SPARSE_10K:
        distinct(random, 10_000, 0, 1_000_000, row -> s.deal(row, random.nextInt()));
        break;
      case DENSE_5PCT:
      case CONFLICT_FIRST:
      case CONFLICT_LAST:
        for (long row = 0; row < 10_000_000; row++) {
          if (random.nextInt(20) == 0) {
            s.deal(row, random.nextInt());
          }
        }
        if (isConflict()) {
          RoaringBitmapArray own = s.current.copy();
          own.andNot(s.base);
          scala.Option<Object> row = this == CONFLICT_FIRST ? own.first() : own.last();
          s.winner.add((Long) row.get());
        }
        break;
      case LONG_RUNS:
        for (int run = 0; run < 400; run++) {
          for (int i = 0; i < 20_000; i++) {
            s.deal(25_000L * run + i, run);
          }
        }
        break;
      case SHORT_RUNS:
        for (int run = 0; run < 250_000; run++) {
          for (int i = 0; i < 8; i++) {
            s.deal(40L * run + i, run);
          }
        }
        break;
      case ACROSS_2_32:
        distinct(random, 10_000, (1L << 32) - 500_000, (1L << 32) + 500_000, row -> s.deal(row, random.nextInt()));
        break;
      case HUGE:
        distinct(random, 500_000, 0, 5_000_000_000L, row -> s.deal(row, random.nextInt()));
        break;
      case LARGE_1PCT:
        for (long row = random.nextInt(200); row < 200_000_000; row += 1 + random.nextInt(199)) {
          s.deal(row, random.nextInt());
        }
        break;
      case MANY_FILES:
        distinct(random, 50, 0, 1_000_000, row -> s.deal(row, random.nextInt()));
        break;
      case LARGE_BASE:
        for (long row = 0; row < 10_000_000; row++) {
          if (random.nextInt(5) == 0) {
            s.base(row);
          }
        }
        for (int side = 0; side < 2; side++) {
          for (int n = 0; n < 100; ) {
            long row = random.nextLong(10_000_000);
            if (!s.current.contains(row) && !s.winner.contains(row)) {
              s.deal(row, side);
              n++;
            }
          }
        }
        break;
      default:
        throw new AssertionError(this);
    }
    return s;
  }

  private static void distinct(SplittableRandom random, int n, long from, long to, LongConsumer use) {
    TreeSet<Long> rows = new TreeSet<>();
    while (rows.size() < n) {
      rows.add(random.nextLong(from, to));
    }
    rows.forEach(use::accept);
  }

  private static byte[] bytes(RoaringBitmapArray bitmap) {
    bitmap.runOptimize();
    return bitmap.serializeAsByteArray(RoaringBitmapArrayFormat.Portable());
  }
}
