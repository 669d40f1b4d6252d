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

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/**
 * One pass, as the native side reads it: the files with up to three deletion vectors each, in one
 * direct buffer.
 *
 * <p>Use: construct, {@link #reserve} a range for each distinct deletion vector, fill the ranges
 * (through {@link #slice} or {@link #put}, from any threads, as the ranges are disjoint),
 * {@link #setFile} for every file, then {@link NativeBridge#resolve}, read the response, and
 * {@link #close}. Files may share a range. Apart from filling the ranges it is for one thread, and
 * the caller sees to it that all writes happened before {@code resolve}.
 *
 * <p>A bitmap is Delta's serialized {@code RoaringBitmapArray} from its magic number on: what
 * {@code serializeAsByteArray} gives, without the size before and the checksum after it in a
 * deletion vector file.
 *
 * <p>Layout, all little endian:
 * <pre>
 *  0 u32 magic "RLCQ"    32 + 80 i  u64 base offset     from the start of the request
 *  4 u32 version 1             + 8  u64 base length     0: no such deletion vector
 *  8 u32 file count           + 16  u64 base cardinality
 * 12 u32 flags 0              + 24  the same for current
 * 16 u64 total length         + 48  the same for winner
 * 24 u64 0                    + 72  u64 rows in the file, all ones if unknown
 *                        32 + 80 n  the bitmaps
 * </pre>
 */
public final class MergeRequest implements AutoCloseable {
  /** The longest request, and the longest response: 2 GiB less one byte, as a buffer cannot be longer. */
  public static final long MAX_BYTES = Integer.MAX_VALUE;

  static final int MAGIC = 0x51434C52;
  static final int LAYOUT_VERSION = 1;
  static final int HEADER_BYTES = 32;
  static final int ENTRY_BYTES = 80;
  private static final int ENTRY_LONGS = ENTRY_BYTES / 8;
  private static final int NUM_RECORDS = 9;

  private final int fileCount;
  private final int payloadStart;
  private final int length;
  /**
   * The entries, until they are copied into the buffer in one go: in a JVM whose compiler is still
   * cold an array store costs a tenth of a store into a direct buffer, and there are ten a file.
   */
  private final long[] entries;
  private boolean entriesWritten;
  private int reserved;
  /** Sum over the files of what the native side may write for it; an estimate, not a limit. */
  private long responseEstimate;
  private ByteBuffer buffer;
  private ByteBuffer responseBuffer;
  private MergeResponse response;

  /**
   * Makes room for a pass.
   *
   * @param fileCount number of files
   * @param payloadBytes sum of the lengths of all distinct deletion vectors, exactly what will be reserved
   * @throws IllegalArgumentException if the whole is longer than {@link #MAX_BYTES}; ask
   *     {@link #bytesNeeded} before, and split the pass
   * @throws NativeException with code {@code DIRECT_MEMORY}
   */
  public MergeRequest(int fileCount, long payloadBytes) {
    if (fileCount < 0 || payloadBytes < 0) {
      throw new IllegalArgumentException("negative: " + fileCount + " files, " + payloadBytes + " bytes");
    }
    long total = bytesNeeded(fileCount, payloadBytes);
    if (total > MAX_BYTES) {
      throw new IllegalArgumentException("a request of " + total + " bytes (" + fileCount + " files, "
          + payloadBytes + " bytes of deletion vectors) is longer than " + MAX_BYTES + "; split the pass");
    }
    this.fileCount = fileCount;
    this.length = (int) total;
    this.payloadStart = HEADER_BYTES + ENTRY_BYTES * fileCount;
    this.reserved = payloadStart;
    this.buffer = BufferPool.SHARED.take(length);
    buffer.putInt(0, MAGIC).putInt(4, LAYOUT_VERSION).putInt(8, fileCount).putInt(12, 0)
        .putLong(16, length).putLong(24, 0L);
    this.entries = new long[ENTRY_LONGS * fileCount];
    for (int i = NUM_RECORDS; i < entries.length; i += ENTRY_LONGS) {
      entries[i] = -1L;
    }
  }

  /**
   * Length of a request in bytes, for a caller which splits passes: it must not be above
   * {@link #MAX_BYTES}.
   *
   * @param fileCount number of files
   * @param payloadBytes sum of the lengths of all distinct deletion vectors
   */
  public static long bytesNeeded(long fileCount, long payloadBytes) {
    return Math.addExact(HEADER_BYTES + Math.multiplyExact(fileCount, (long) ENTRY_BYTES), payloadBytes);
  }

  /** Number of files. */
  public int fileCount() {
    return fileCount;
  }

  /**
   * Sets a range aside for one deletion vector.
   *
   * @param lengthBytes its length, above 0
   * @return its offset, for {@link #slice}, {@link #put} and {@link #setFile}
   * @throws IllegalStateException if more is reserved than the constructor was told
   */
  public int reserve(int lengthBytes) {
    open();
    if (lengthBytes <= 0) {
      throw new IllegalArgumentException("length of a deletion vector: " + lengthBytes);
    }
    if (lengthBytes > length - reserved) {
      throw new IllegalStateException("reserving " + lengthBytes + " bytes, of "
          + (length - payloadStart) + " only " + (length - reserved) + " are left");
    }
    int offset = reserved;
    reserved += lengthBytes;
    return offset;
  }

  /**
   * A view of a reserved range, to read bytes into. It must not be written to once the request was
   * given to {@link NativeBridge}.
   *
   * @param offset as {@link #reserve} returned it
   * @param lengthBytes as it was told
   */
  public ByteBuffer slice(int offset, int lengthBytes) {
    ByteBuffer b = open();
    checkRange(offset, lengthBytes);
    return b.slice(offset, lengthBytes).order(ByteOrder.LITTLE_ENDIAN);
  }

  /**
   * Copies bytes into a reserved range.
   *
   * @param offset as {@link #reserve} returned it
   * @param source holds the deletion vector
   * @param sourceOffset where it begins there
   * @param lengthBytes how long it is
   */
  public void put(int offset, byte[] source, int sourceOffset, int lengthBytes) {
    ByteBuffer b = open();
    checkRange(offset, lengthBytes);
    b.put(offset, source, sourceOffset, lengthBytes);
  }

  /**
   * Reserves a range and copies bytes into it.
   *
   * @param bitmap a whole deletion vector
   * @return its offset
   */
  public int add(byte[] bitmap) {
    int offset = reserve(bitmap.length);
    put(offset, bitmap, 0, bitmap.length);
    return offset;
  }

  /**
   * Describes one file. A deletion vector that does not exist has length 0 and cardinality 0; its
   * offset is ignored.
   *
   * @param index below {@link #fileCount}
   * @param baseOffset the deletion vector the loser read the file with
   * @param baseLength in bytes
   * @param baseCardinality as the log declares it
   * @param currentOffset the one the loser wants to commit; absent: it did not touch the file
   * @param currentLength in bytes
   * @param currentCardinality as declared
   * @param winnerOffset the last winner's
   * @param winnerLength in bytes
   * @param winnerCardinality as declared
   * @param numRecords rows in the file, with the deleted ones, or -1 if unknown
   */
  public void setFile(int index,
      int baseOffset, int baseLength, long baseCardinality,
      int currentOffset, int currentLength, long currentCardinality,
      int winnerOffset, int winnerLength, long winnerCardinality,
      long numRecords) {
    open();
    checkIndex(index);
    if (numRecords < -1) {
      throw new IllegalArgumentException("numRecords of file " + index + ": " + numRecords);
    }
    int entry = index * ENTRY_LONGS;
    responseEstimate -= estimate(entry);
    entriesWritten = false;
    try {
      setBitmap(entry, "base", baseOffset, baseLength, baseCardinality);
      setBitmap(entry + 3, "current", currentOffset, currentLength, currentCardinality);
      setBitmap(entry + 6, "winner", winnerOffset, winnerLength, winnerCardinality);
      entries[entry + NUM_RECORDS] = numRecords;
    } catch (IllegalArgumentException e) {
      Arrays.fill(entries, entry, entry + NUM_RECORDS, 0L); // never half an entry
      entries[entry + NUM_RECORDS] = -1L;
      throw new IllegalArgumentException("file " + index + ": " + e.getMessage(), e);
    }
    responseEstimate += estimate(entry);
  }

  /**
   * Gives the buffers back; the response can no longer be read. Idempotent. A request that never
   * got an answer gives nothing back, as readers may still be filling its ranges: the garbage
   * collector takes it.
   */
  @Override
  public void close() {
    ByteBuffer request = buffer;
    ByteBuffer answer = responseBuffer;
    boolean answered = response != null;
    if (answered) {
      response.invalidate();
    }
    buffer = null;
    responseBuffer = null;
    response = null;
    if (request != null && answered) {
      BufferPool.SHARED.give(request);
    }
    if (answer != null) {
      BufferPool.SHARED.give(answer);
    }
  }

  /** The whole request, as the native side is to read it. */
  ByteBuffer complete() {
    ByteBuffer b = open();
    if (!entriesWritten) {
      b.slice(HEADER_BYTES, payloadStart - HEADER_BYTES).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer().put(entries);
      entriesWritten = true;
    }
    return b;
  }

  private ByteBuffer open() {
    ByteBuffer b = buffer;
    if (b == null) {
      throw new IllegalStateException("the request is closed");
    }
    return b;
  }

  int length() {
    return length;
  }

  /** How long a response most likely will be at most. */
  long responseEstimate() {
    return MergeResponse.HEADER_BYTES + (long) MergeResponse.ENTRY_BYTES * fileCount + responseEstimate;
  }

  /** A response buffer of at least {@code size} bytes; an earlier one is given back. */
  ByteBuffer responseBuffer(int size) {
    if (response != null) {
      response.invalidate();
      response = null;
    }
    ByteBuffer b = responseBuffer;
    if (b == null || b.capacity() < size) {
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

  private void setBitmap(int at, String role, int offset, int len, long cardinality) {
    if (len == 0) {
      if (cardinality != 0) {
        throw new IllegalArgumentException(role + " is absent but has cardinality " + cardinality);
      }
      entries[at] = 0L;
      entries[at + 1] = 0L;
      entries[at + 2] = 0L;
      return;
    }
    if (cardinality < 0) {
      throw new IllegalArgumentException(role + " has cardinality " + cardinality);
    }
    checkRange(offset, len);
    entries[at] = offset;
    entries[at + 1] = len;
    entries[at + 2] = cardinality;
  }

  /** The union is hardly ever longer than both sides together; twice that is above what it can be. */
  private long estimate(int entry) {
    long current = entries[entry + 4];
    return current == 0 ? 0 : (2 * (current + entries[entry + 7]) + 64 + 7) & ~7L;
  }

  void checkIndex(int index) {
    if (index < 0 || index >= fileCount) {
      throw new IndexOutOfBoundsException("file " + index + " of " + fileCount);
    }
  }

  private void checkRange(int offset, int len) {
    if (len < 0 || offset < payloadStart || len > reserved - offset) {
      throw new IllegalArgumentException("range of " + len + " bytes at " + offset
          + " is not within what was reserved, " + payloadStart + " to " + reserved);
    }
  }
}
