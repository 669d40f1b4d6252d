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

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * The merge as one would write it in plain Java: containers are validated, compared and united on the
 * serialized bytes, three cursors in step, and the result is written behind them.
 *
 * <p>The second peer of the benchmarks. It does what the Rust engine does, so that what Rust itself
 * brings can be told from what the algorithm brings. Buffers are kept between calls; one thread.
 */
final class JavaStreamingMerge {
  private static final VarHandle SHORT =
      MethodHandles.byteArrayViewVarHandle(short[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle INT =
      MethodHandles.byteArrayViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);
  private static final VarHandle LONG =
      MethodHandles.byteArrayViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);

  static final int MAGIC = 1681511377;
  private static final int COOKIE = 12346;
  private static final int COOKIE_WITH_RUNS = 12347;
  private static final int ARRAY_MAX = 4096;
  private static final int BITSET_BYTES = 8192;
  private static final int WORDS = 1024;

  private enum Kind { ARRAY, BITSET, RUN }

  /** Bytes or declarations that are not what they should be. */
  static final class Malformed extends RuntimeException {
    private static final long serialVersionUID = 1L;

    Malformed(String what) {
      super(what);
    }
  }

  private final Cursor base = new Cursor();
  private final Cursor current = new Cursor();
  private final Cursor winner = new Cursor();
  private final Writer out = new Writer();
  private final long[] x = new long[WORDS];
  private final long[] y = new long[WORDS];
  private final long[] z = new long[WORDS];
  private final short[] values = new short[2 * ARRAY_MAX];
  private final int[] starts = new int[1 << 15];
  private final int[] ends = new int[1 << 15];

  /** The union, or null when the two sides have a row in common or lack one of the base. */
  byte[] merge(byte[] b, long baseCardinality, byte[] c, long currentCardinality, byte[] w, long winnerCardinality) {
    base.open(b);
    current.open(c);
    winner.open(w);
    out.open();
    boolean hasBase = base.next();
    boolean hasCurrent = current.next();
    boolean hasWinner = winner.next();
    while (hasCurrent || hasWinner) {
      long key = Math.min(hasCurrent ? current.key : Long.MAX_VALUE, hasWinner ? winner.key : Long.MAX_VALUE);
      boolean inBase = hasBase && base.key <= key;
      boolean inCurrent = hasCurrent && current.key == key;
      boolean inWinner = hasWinner && winner.key == key;
      if (inBase && (base.key != key || !inCurrent || !inWinner)) {
        return null; // the base is no subset
      }
      out.bucket((int) (key >>> 16));
      if (!inWinner) {
        out.copy((int) key & 0xFFFF, current);
      } else if (!inCurrent) {
        out.copy((int) key & 0xFFFF, winner);
      } else if (!unite((int) key & 0xFFFF, inBase ? base : null)) {
        return null;
      }
      hasBase = inBase ? base.next() : hasBase;
      hasCurrent = inCurrent ? current.next() : hasCurrent;
      hasWinner = inWinner ? winner.next() : hasWinner;
    }
    if (hasBase) {
      return null;
    }
    if (base.total != baseCardinality || current.total != currentCardinality || winner.total != winnerCardinality) {
      throw new Malformed("cardinality");
    }
    return out.finish();
  }

  /** Unites current and winner at one key; false if what they have in common is not the base. */
  private boolean unite(int key, Cursor b) {
    if (current.kind == Kind.ARRAY && winner.kind == Kind.ARRAY && (b == null || b.kind == Kind.ARRAY)) {
      return uniteArrays(key, b);
    }
    if (current.kind == Kind.RUN && winner.kind == Kind.RUN && (b == null || b.kind == Kind.RUN)) {
      return uniteRuns(key, b);
    }
    current.bits(x);
    winner.bits(y);
    int count = 0;
    if (b == null) {
      for (int i = 0; i < WORDS; i++) {
        if ((x[i] & y[i]) != 0) {
          return false;
        }
        x[i] |= y[i];
        count += Long.bitCount(x[i]);
      }
    } else {
      b.bits(z);
      for (int i = 0; i < WORDS; i++) {
        if ((x[i] & y[i]) != z[i]) {
          return false;
        }
        x[i] |= y[i];
        count += Long.bitCount(x[i]);
      }
    }
    boolean runs = current.kind == Kind.RUN || winner.kind == Kind.RUN;
    out.bits(key, x, count, runs);
    return true;
  }

  private boolean uniteArrays(int key, Cursor b) {
    byte[] ca = current.bytes;
    byte[] wa = winner.bytes;
    int ci = current.offset;
    int wi = winner.offset;
    int ce = ci + 2 * current.count;
    int we = wi + 2 * winner.count;
    int bi = b == null ? 0 : b.offset;
    int be = b == null ? 0 : bi + 2 * b.count;
    int n = 0;
    while (ci < ce && wi < we) {
      int c = (short) SHORT.get(ca, ci) & 0xFFFF;
      int w = (short) SHORT.get(wa, wi) & 0xFFFF;
      if (c < w) {
        values[n++] = (short) c;
        ci += 2;
      } else if (w < c) {
        values[n++] = (short) w;
        wi += 2;
      } else {
        if (bi == be || ((short) SHORT.get(b.bytes, bi) & 0xFFFF) != c) {
          return false;
        }
        bi += 2;
        values[n++] = (short) c;
        ci += 2;
        wi += 2;
      }
    }
    for (; ci < ce; ci += 2) {
      values[n++] = (short) SHORT.get(ca, ci);
    }
    for (; wi < we; wi += 2) {
      values[n++] = (short) SHORT.get(wa, wi);
    }
    if (bi != be) {
      return false;
    }
    out.array(key, values, n);
    return true;
  }

  private boolean uniteRuns(int key, Cursor b) {
    int ci = 0;
    int wi = 0;
    int bi = 0;
    int n = 0;
    int cardinality = 0;
    int from = -1;
    int to = -2; // the run that is being built, inclusive
    while (ci < current.runs || wi < winner.runs) {
      int c = ci < current.runs ? current.start(ci) : Integer.MAX_VALUE;
      int w = wi < winner.runs ? winner.start(wi) : Integer.MAX_VALUE;
      int start;
      int end;
      if (c <= w) {
        start = c;
        end = current.end(ci++);
      } else {
        start = w;
        end = winner.end(wi++);
      }
      if (start <= to + 1 && to >= 0) {
        to = Math.max(to, end);
      } else {
        if (to >= 0) {
          starts[n] = from;
          ends[n++] = to;
          cardinality += to - from + 1;
        }
        from = start;
        to = end;
      }
    }
    starts[n] = from;
    ends[n++] = to;
    cardinality += to - from + 1;
    // What they have in common must be the base, run by run.
    int common = 0;
    for (ci = 0, wi = 0; ci < current.runs && wi < winner.runs; ) {
      int lo = Math.max(current.start(ci), winner.start(wi));
      int hi = Math.min(current.end(ci), winner.end(wi));
      if (lo <= hi) {
        if (b == null) {
          return false;
        }
        common += hi - lo + 1;
        // A common stretch must lie within one run of the base.
        while (bi < b.runs && b.end(bi) < lo) {
          bi++;
        }
        if (bi == b.runs || b.start(bi) > lo || b.end(bi) < hi) {
          return false;
        }
      }
      if (current.end(ci) < winner.end(wi)) {
        ci++;
      } else {
        wi++;
      }
    }
    if (common != (b == null ? 0 : b.cardinality)) {
      return false;
    }
    out.runs(key, starts, ends, n, cardinality);
    return true;
  }

  /** Walks the containers of one bitmap and checks each. */
  private static final class Cursor {
    byte[] bytes;
    long key;
    Kind kind;
    int offset;      // of the values, words or runs
    int count;       // values of an array
    int cardinality;
    int runs;
    long total;

    private int at;
    private long bucketsLeft;
    private int high;
    private int size;
    private int index;
    private int flags; // where the run flags are, -1 without
    private int header;
    private int lastKey;

    void open(byte[] b) {
      bytes = b;
      if (b.length < 12 || (int) INT.get(b, 0) != MAGIC) {
        throw new Malformed("magic");
      }
      bucketsLeft = (long) LONG.get(b, 4);
      at = 12;
      high = -1;
      size = 0;
      index = 0;
      total = 0;
    }

    boolean next() {
      while (index == size) {
        if (bucketsLeft == 0) {
          if (at != bytes.length) {
            throw new Malformed("bytes left over");
          }
          return false;
        }
        bucketsLeft--;
        openBucket();
      }
      int k = (short) SHORT.get(bytes, header + 4 * index) & 0xFFFF;
      if (k <= lastKey) {
        throw new Malformed("key order");
      }
      lastKey = k;
      key = ((long) high << 16) | k;
      cardinality = ((short) SHORT.get(bytes, header + 4 * index + 2) & 0xFFFF) + 1;
      offset = at;
      if (flags >= 0 && (bytes[flags + (index >> 3)] >> (index & 7) & 1) != 0) {
        kind = Kind.RUN;
        checkRuns();
      } else if (cardinality <= ARRAY_MAX) {
        kind = Kind.ARRAY;
        checkArray();
      } else {
        kind = Kind.BITSET;
        checkBitset();
      }
      total += cardinality;
      index++;
      return true;
    }

    private void openBucket() {
      need(8);
      int h = (int) INT.get(bytes, at);
      if (h <= high) {
        throw new Malformed("bucket order");
      }
      high = h;
      int cookie = (int) INT.get(bytes, at + 4);
      at += 8;
      boolean offsets;
      if ((cookie & 0xFFFF) == COOKIE_WITH_RUNS) {
        size = (cookie >>> 16) + 1;
        flags = at;
        at += (size + 7) / 8;
        offsets = size >= 4;
      } else if (cookie == COOKIE) {
        need(4);
        size = (int) INT.get(bytes, at);
        if (size < 0 || size > 1 << 16) {
          throw new Malformed("containers");
        }
        flags = -1;
        at += 4;
        offsets = true;
      } else {
        throw new Malformed("cookie");
      }
      header = at;
      need(4 * size);
      at += 4 * size;
      if (offsets) {
        need(4 * size);
        at += 4 * size;
      }
      index = 0;
      lastKey = -1;
    }

    private void checkArray() {
      count = cardinality;
      need(2 * count);
      int last = -1;
      for (int i = at; i < at + 2 * count; i += 2) {
        int v = (short) SHORT.get(bytes, i) & 0xFFFF;
        if (v <= last) {
          throw new Malformed("value order");
        }
        last = v;
      }
      at += 2 * count;
    }

    private void checkBitset() {
      need(BITSET_BYTES);
      int bits = 0;
      for (int i = at; i < at + BITSET_BYTES; i += 8) {
        bits += Long.bitCount((long) LONG.get(bytes, i));
      }
      if (bits != cardinality) {
        throw new Malformed("bits");
      }
      at += BITSET_BYTES;
    }

    private void checkRuns() {
      need(2);
      runs = (short) SHORT.get(bytes, at) & 0xFFFF;
      offset = at + 2;
      need(2 + 4 * runs);
      int last = -2;
      int sum = 0;
      for (int i = 0; i < runs; i++) {
        int s = start(i);
        int e = end(i);
        if (s <= last + 1 || e > 0xFFFF) {
          throw new Malformed("runs");
        }
        last = e;
        sum += e - s + 1;
      }
      if (sum != cardinality) {
        throw new Malformed("run lengths");
      }
      at += 2 + 4 * runs;
    }

    int start(int run) {
      return (short) SHORT.get(bytes, offset + 4 * run) & 0xFFFF;
    }

    /** Inclusive. */
    int end(int run) {
      return start(run) + ((short) SHORT.get(bytes, offset + 4 * run + 2) & 0xFFFF);
    }

    void bits(long[] words) {
      switch (kind) {
        case BITSET:
          for (int i = 0; i < WORDS; i++) {
            words[i] = (long) LONG.get(bytes, offset + 8 * i);
          }
          return;
        case ARRAY:
          Arrays.fill(words, 0L);
          for (int i = offset; i < offset + 2 * count; i += 2) {
            int v = (short) SHORT.get(bytes, i) & 0xFFFF;
            words[v >> 6] |= 1L << v;
          }
          return;
        default:
          Arrays.fill(words, 0L);
          for (int i = 0; i < runs; i++) {
            setRange(words, start(i), end(i));
          }
      }
    }

    private void need(int n) {
      if (n > bytes.length - at) {
        throw new Malformed("truncated");
      }
    }
  }

  private static void setRange(long[] words, int from, int to) {
    int first = from >> 6;
    int last = to >> 6;
    long head = -1L << from;
    long tail = -1L >>> (63 - (to & 63));
    if (first == last) {
      words[first] |= head & tail;
      return;
    }
    words[first] |= head;
    Arrays.fill(words, first + 1, last, -1L);
    words[last] |= tail;
  }

  /** Writes containers, each bucket's header once its containers are known. */
  private static final class Writer {
    private byte[] bytes = new byte[1 << 16];
    private int length;
    private int buckets;
    private int high;
    private int size;
    private boolean anyRun;
    private final short[] keys = new short[1 << 16];
    private final short[] cards = new short[1 << 16];
    private final boolean[] run = new boolean[1 << 16];
    private final int[] offsets = new int[1 << 16];
    private byte[] data = new byte[1 << 16];
    private int used;

    void open() {
      length = 12;
      buckets = 0;
      high = -1;
      size = 0;
      used = 0;
      anyRun = false;
    }

    void bucket(int h) {
      if (h != high) {
        close();
        high = h;
      }
    }

    void copy(int key, Cursor c) {
      int n = c.at - c.offset;
      int from = c.offset;
      if (c.kind == Kind.RUN) {
        from -= 2;
        n += 2;
      }
      begin(key, c.cardinality, c.kind == Kind.RUN, n);
      System.arraycopy(c.bytes, from, data, used, n);
      used += n;
    }

    void array(int key, short[] values, int n) {
      if (n > ARRAY_MAX) {
        begin(key, n, false, BITSET_BYTES);
        Arrays.fill(data, used, used + BITSET_BYTES, (byte) 0);
        for (int i = 0; i < n; i++) {
          int v = values[i] & 0xFFFF;
          data[used + (v >> 3)] |= (byte) (1 << (v & 7));
        }
        used += BITSET_BYTES;
        return;
      }
      begin(key, n, false, 2 * n);
      for (int i = 0; i < n; i++, used += 2) {
        SHORT.set(data, used, values[i]);
      }
    }

    void runs(int key, int[] starts, int[] ends, int n, int cardinality) {
      if (2 + 4 * n >= Math.min(BITSET_BYTES, 2 * cardinality)) {
        long[] words = new long[WORDS];
        for (int i = 0; i < n; i++) {
          setRange(words, starts[i], ends[i]);
        }
        bits(key, words, cardinality, false);
        return;
      }
      begin(key, cardinality, true, 2 + 4 * n);
      SHORT.set(data, used, (short) n);
      used += 2;
      for (int i = 0; i < n; i++, used += 4) {
        SHORT.set(data, used, (short) starts[i]);
        SHORT.set(data, used + 2, (short) (ends[i] - starts[i]));
      }
    }

    void bits(int key, long[] words, int cardinality, boolean tryRuns) {
      if (tryRuns) {
        int n = 0;
        for (int i = 0; i < WORDS; i++) { // a run ends where a bit is set and the next is not
          long next = i + 1 < WORDS ? words[i + 1] & 1 : 0;
          n += Long.bitCount(words[i] & ~(words[i] >>> 1 | next << 63));
        }
        if (2 + 4 * n < Math.min(BITSET_BYTES, 2 * cardinality)) {
          writeRuns(key, words, n, cardinality);
          return;
        }
      }
      if (cardinality <= ARRAY_MAX) {
        begin(key, cardinality, false, 2 * cardinality);
        for (int i = 0; i < WORDS; i++) {
          for (long w = words[i]; w != 0; w &= w - 1, used += 2) {
            SHORT.set(data, used, (short) ((i << 6) + Long.numberOfTrailingZeros(w)));
          }
        }
        return;
      }
      begin(key, cardinality, false, BITSET_BYTES);
      for (int i = 0; i < WORDS; i++, used += 8) {
        LONG.set(data, used, words[i]);
      }
    }

    private void writeRuns(int key, long[] words, int n, int cardinality) {
      begin(key, cardinality, true, 2 + 4 * n);
      SHORT.set(data, used, (short) n);
      used += 2;
      int i = 0;
      long w = words[0];
      while (true) {
        while (w == 0 && i < WORDS - 1) {
          w = words[++i];
        }
        if (w == 0) {
          return;
        }
        int bit = Long.numberOfTrailingZeros(w);
        int start = (i << 6) + bit;
        long filled = w | (w - 1); // all ones below the run, too
        while (filled == -1L && i < WORDS - 1) {
          filled = words[++i];
        }
        int end = filled == -1L ? (i << 6) + 64 : (i << 6) + Long.numberOfTrailingZeros(~filled);
        SHORT.set(data, used, (short) start);
        SHORT.set(data, used + 2, (short) (end - 1 - start));
        used += 4;
        if (filled == -1L) {
          return;
        }
        w = filled & (filled + 1);
      }
    }

    byte[] finish() {
      close();
      INT.set(bytes, 0, MAGIC);
      LONG.set(bytes, 4, (long) buckets);
      return Arrays.copyOf(bytes, length);
    }

    private void begin(int key, int cardinality, boolean isRun, int n) {
      keys[size] = (short) key;
      cards[size] = (short) (cardinality - 1);
      run[size] = isRun;
      offsets[size] = used;
      anyRun |= isRun;
      size++;
      if (used + n > data.length) {
        data = Arrays.copyOf(data, Math.max(2 * data.length, used + n));
      }
    }

    private void close() {
      if (size == 0) {
        return;
      }
      int flags = anyRun ? (size + 7) / 8 : 0;
      boolean withOffsets = !anyRun || size >= 4;
      int header = 4 + (anyRun ? 0 : 4) + flags + 4 * size + (withOffsets ? 4 * size : 0);
      int total = 4 + header + used;
      if (length + total > bytes.length) {
        bytes = Arrays.copyOf(bytes, Math.max(2 * bytes.length, length + total));
      }
      int p = length;
      INT.set(bytes, p, high);
      p += 4;
      if (anyRun) {
        INT.set(bytes, p, COOKIE_WITH_RUNS | (size - 1) << 16);
        p += 4;
        Arrays.fill(bytes, p, p + flags, (byte) 0);
        for (int i = 0; i < size; i++) {
          if (run[i]) {
            bytes[p + (i >> 3)] |= (byte) (1 << (i & 7));
          }
        }
        p += flags;
      } else {
        INT.set(bytes, p, COOKIE);
        INT.set(bytes, p + 4, size);
        p += 8;
      }
      for (int i = 0; i < size; i++, p += 4) {
        SHORT.set(bytes, p, keys[i]);
        SHORT.set(bytes, p + 2, cards[i]);
      }
      if (withOffsets) {
        for (int i = 0; i < size; i++, p += 4) {
          INT.set(bytes, p, header + offsets[i]);
        }
      }
      System.arraycopy(data, 0, bytes, p, used);
      length += total;
      buckets++;
      size = 0;
      used = 0;
      anyRun = false;
    }
  }
}
