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

package io.github.deltarlc.jni;

import java.util.Arrays;
import java.util.concurrent.atomic.AtomicReference;

/**
 * One pass, as the native side reads it: the files with up to three deletion vectors each.
 *
 * <p>Use: construct, {@link #add} the arrays that hold the deletion vectors, {@link #setFile} for every
 * file, then {@link NativeBridge#resolve}, read the response, and {@link #close}. An array may hold
 * many deletion vectors, as a file of them does, and files may share them. Those of small arrays are
 * gathered in one array of the request's own, as each array that the native side has to ask the JVM
 * for costs it as much as many bytes; others are read where they are, so the arrays must not change
 * until the request is closed. For one thread.
 *
 * <p>A bitmap is Delta's serialized {@code RoaringBitmapArray} from its magic number on: what
 * {@code serializeAsByteArray} gives, without the size before and the checksum after it in a
 * deletion vector file.
 *
 * <p>For each file the native side reads 13 numbers of a table:
 * <pre>
 *  0 base array index    as {@link #add} returned it, or {@link #GATHERED}
 *  1 base offset         in the array
 *  2 base length         0: no such deletion vector
 *  3 base cardinality
 *  4 the same for current
 *  8 the same for winner
 * 12 rows in the file, -1 if unknown
 * </pre>
 */
public final class MergeRequest implements AutoCloseable {
  /** The longest response: 2 GiB less one byte, as a buffer cannot be longer. */
  public static final long MAX_BYTES = Integer.MAX_VALUE;

  static final int ENTRY_LONGS = 13;
  /** Index of the array in which the deletion vectors of small arrays are gathered. */
  static final int GATHERED = 0;
  /** The longest array that is gathered from: up to there a copy takes less time than three calls of JNI. */
  static final int LONGEST_GATHERED = 2048;
  /** The most that is gathered: larger arrays the native side copies once more, as they would hold up the collector. */
  static final int MOST_GATHERED = 8 << 20;

  /** The array of a request that was closed, for the next one: a new one is filled with zeros first. */
  private static final AtomicReference<byte[]> SPARE = new AtomicReference<>();
  private static final int LARGEST_SPARE = 1 << 20;

  private final int fileCount;
  private long[] table;
  private byte[][] arrays = new byte[8][];
  private int arrayCount = GATHERED + 1;
  private int gatheredLength;
  private boolean hasSmallArrays;
  /** Sum of what the deletion vectors that are to be united most likely take at most. */
  private long unionLengths;
  private DirectBuffer responseBuffer;
  private MergeResponse response;

  /**
   * Makes room for a pass, of files that have no deletion vectors yet.
   *
   * @param fileCount number of files
   */
  public MergeRequest(int fileCount) {
    if (fileCount < 0 || fileCount > Integer.MAX_VALUE / ENTRY_LONGS) {
      throw new IllegalArgumentException("number of files: " + fileCount);
    }
    this.fileCount = fileCount;
    this.table = new long[ENTRY_LONGS * fileCount];
    byte[] spare = SPARE.getAndSet(null);
    arrays[GATHERED] = spare == null ? new byte[2 * LONGEST_GATHERED] : spare;
  }

  /** Number of files. */
  public int fileCount() {
    return fileCount;
  }

  /**
   * Adds an array that holds deletion vectors, and anything else.
   *
   * @param array is not copied as a whole
   * @return its index, for {@link #setFile}
   */
  public int add(byte[] array) {
    if (array == null) {
      throw new IllegalArgumentException("no array");
    }
    open();
    if (arrayCount == arrays.length) {
      arrays = Arrays.copyOf(arrays, 2 * arrayCount);
    }
    arrays[arrayCount] = array;
    hasSmallArrays |= array.length <= LONGEST_GATHERED;
    return arrayCount++;
  }

  /**
   * Describes one file. A deletion vector that does not exist has length 0 and cardinality 0; its
   * array and offset are ignored. The numbers are checked by the native side, all at once.
   *
   * @param index below {@link #fileCount}
   * @param baseArray where the deletion vector is that the loser read the file with
   * @param baseOffset where it begins in that array
   * @param baseLength in bytes
   * @param baseCardinality as the log declares it
   * @param currentArray the one the loser wants to commit; absent: it did not touch the file
   * @param currentOffset likewise
   * @param currentLength in bytes
   * @param currentCardinality as declared
   * @param winnerArray the last winner's
   * @param winnerOffset likewise
   * @param winnerLength in bytes
   * @param winnerCardinality as declared
   * @param numRecords rows in the file, with the deleted ones, or -1 if unknown
   */
  public void setFile(int index,
      int baseArray, int baseOffset, int baseLength, long baseCardinality,
      int currentArray, int currentOffset, int currentLength, long currentCardinality,
      int winnerArray, int winnerOffset, int winnerLength, long winnerCardinality,
      long numRecords) {
    // No more than stores: while the JVM's compiler is cold, each call costs as much as the merge.
    long[] t = table;
    if (t == null || index < 0 || index >= fileCount) {
      open();
      checkIndex(index);
    }
    int at = ENTRY_LONGS * index;
    // Nobody has added the array in which they are gathered.
    t[at] = baseArray == GATHERED ? -1 : baseArray;
    t[at + 1] = baseOffset;
    t[at + 2] = baseLength;
    t[at + 3] = baseCardinality;
    t[at + 4] = currentArray == GATHERED ? -1 : currentArray;
    t[at + 5] = currentOffset;
    t[at + 6] = currentLength;
    t[at + 7] = currentCardinality;
    t[at + 8] = winnerArray == GATHERED ? -1 : winnerArray;
    t[at + 9] = winnerOffset;
    t[at + 10] = winnerLength;
    t[at + 11] = winnerCardinality;
    t[at + 12] = numRecords;
    if (hasSmallArrays) {
      gather(t, at, baseArray, baseOffset, baseLength);
      gather(t, at + 4, currentArray, currentOffset, currentLength);
      gather(t, at + 8, winnerArray, winnerOffset, winnerLength);
    }
    if (currentLength != 0) {
      // Both sides hold the base, and the union holds it once.
      long union = (long) currentLength + winnerLength - baseLength;
      unionLengths += union < currentLength ? currentLength : union < winnerLength ? winnerLength : union;
    }
  }

  /** Gathers a deletion vector of a small array. What is wrong about it the native side finds, and names the file. */
  private void gather(long[] t, int at, int array, int offset, int length) {
    int end = gatheredLength + length;
    if (length <= 0 || end > MOST_GATHERED || array <= GATHERED || array >= arrayCount) {
      return;
    }
    byte[] from = arrays[array];
    if (from.length > LONGEST_GATHERED || offset < 0 || offset > from.length - length) {
      return;
    }
    byte[] gathered = arrays[GATHERED];
    if (end > gathered.length) {
      gathered = Arrays.copyOf(gathered, Math.max(end, 2 * gathered.length));
      arrays[GATHERED] = gathered;
    }
    System.arraycopy(from, offset, gathered, gatheredLength, length);
    t[at] = GATHERED;
    t[at + 1] = gatheredLength;
    gatheredLength = end;
  }

  /** Gives the response's buffer back; the response can no longer be read. Idempotent. */
  @Override
  public void close() {
    DirectBuffer answer = responseBuffer;
    if (response != null) {
      response.invalidate();
    }
    if (arrays != null && arrays[GATHERED].length <= LARGEST_SPARE) {
      SPARE.set(arrays[GATHERED]);
    }
    table = null;
    arrays = null;
    responseBuffer = null;
    response = null;
    if (answer != null) {
      BufferPool.SHARED.give(answer);
    }
  }

  long[] table() {
    open();
    return table;
  }

  /** Those that were added; at {@link #GATHERED} stands none of them. */
  byte[][] arrays() {
    open();
    return arrays;
  }

  /** In which the deletion vectors of small arrays are gathered: the native side's array {@link #GATHERED}. */
  byte[] gathered() {
    open();
    return arrays[GATHERED];
  }

  /** How many bytes of {@link #gathered} there are any of. */
  int gatheredLength() {
    return gatheredLength;
  }

  private void open() {
    if (table == null) {
      throw new IllegalStateException("the request is closed");
    }
  }

  /** How long a response most likely will be at most; if it is longer, it is asked for again. */
  long responseEstimate() {
    return MergeResponse.HEADER_BYTES + (MergeResponse.ENTRY_BYTES + 8L) * fileCount + Math.max(unionLengths, 0L) + 256;
  }

  /** A response buffer of at least {@code size} bytes; an earlier one is given back. */
  DirectBuffer responseBuffer(int size) {
    if (response != null) {
      response.invalidate();
      response = null;
    }
    DirectBuffer b = responseBuffer;
    if (b == null || b.bytes.capacity() < size) {
      responseBuffer = null;
      if (b != null) {
        BufferPool.SHARED.give(b);
      }
      b = BufferPool.SHARED.take(size);
      responseBuffer = b;
    }
    return b;
  }

  MergeResponse answered(MergeResponse answer) {
    response = answer;
    return answer;
  }

  void checkIndex(int index) {
    if (index < 0 || index >= fileCount) {
      throw new IndexOutOfBoundsException("file " + index + " of " + fileCount);
    }
  }
}
