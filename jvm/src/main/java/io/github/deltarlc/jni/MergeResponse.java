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

/**
 * The answer to one {@link MergeRequest}: a verdict for each file and the merged bitmaps. Valid until
 * the request is closed or resolved again.
 *
 * <p>Layout, all little endian:
 * <pre>
 *  0 u32 magic "RLCR"    32 + 64 i  u32 verdict
 *  4 u32 version 4             + 4  u32 role
 *  8 u32 file count            + 8  u32 error code
 * 12 u32 0                    + 12  u32 0
 * 16 u64 total used           + 16  u64 offset         of the merged bitmap, from the start
 * 24 u64 0                    + 24  u64 length         0: none
 *                             + 32  u64 cardinality    of the union
 *                             + 40  u64 detail         first row, or offset in the bad bitmap
 *                             + 48  u64 expected
 *                             + 56  u64 got
 *                        32 + 64 n  the bitmaps
 * </pre>
 */
public final class MergeResponse {
  static final int MAGIC = 0x52434C52;
  static final int LAYOUT_VERSION = 4;
  static final int HEADER_BYTES = 32;
  static final int ENTRY_BYTES = 64;
  private static final int ENTRY_LONGS = ENTRY_BYTES / 8;
  /** Up to so many files the entries are read one by one, which takes less time than a view of the buffer. */
  private static final int FEW_FILES = 4;
  /** The average length of a bitmap up to which it is worth copying them all. */
  private static final int SMALL_BITMAP_BYTES = 1024;

  private final int fileCount;
  private final int used;
  /**
   * All entries, copied in one go: while the JVM's compiler is cold an array costs a tenth of a direct
   * buffer, and it is looked at for every file.
   */
  private final long[] entries;
  private final int bitmapsStart;
  /** All bitmaps likewise, when the first is asked for, if they are small. */
  private byte[] bitmaps;
  private ByteBuffer buffer;

  /** Reads the header of {@code used} bytes that the native side wrote for a request of as many files. */
  MergeResponse(ByteBuffer buffer, long used, int fileCount) {
    if (used < HEADER_BYTES + (long) ENTRY_BYTES * fileCount || used > buffer.capacity()) {
      throw bad("" + used + " bytes used of " + buffer.capacity() + " for " + fileCount + " files");
    }
    if (buffer.getInt(0) != MAGIC || buffer.getInt(4) != LAYOUT_VERSION) {
      throw bad("it begins with " + Integer.toHexString(buffer.getInt(0)) + ", version " + buffer.getInt(4));
    }
    if (buffer.getInt(8) != fileCount || buffer.getLong(16) != used) {
      throw bad(buffer.getInt(8) + " files and " + buffer.getLong(16) + " bytes, want " + fileCount + " and " + used);
    }
    this.buffer = buffer;
    this.used = (int) used;
    this.fileCount = fileCount;
    this.entries = new long[ENTRY_LONGS * fileCount];
    if (fileCount <= FEW_FILES) {
      for (int i = 0; i < entries.length; i++) {
        entries[i] = buffer.getLong(HEADER_BYTES + 8 * i);
      }
    } else {
      buffer.slice(HEADER_BYTES, ENTRY_BYTES * fileCount).order(ByteOrder.LITTLE_ENDIAN).asLongBuffer().get(entries);
    }
    this.bitmapsStart = HEADER_BYTES + ENTRY_BYTES * fileCount;
  }

  /** Number of files, that of the request. */
  public int fileCount() {
    return fileCount;
  }

  /**
   * What was found for a file.
   *
   * @param index of the file in the request
   */
  public Verdict verdict(int index) {
    // Called for every file, as bytes() is: while the JVM's compiler is cold, calls cost more than what they do.
    if (buffer == null || index < 0 || index >= fileCount) {
      check(index);
    }
    return Verdict.of((int) entries[ENTRY_LONGS * index]);
  }

  /**
   * Which of the file's deletion vectors {@link #error} speaks of.
   *
   * @param index of the file in the request
   */
  public DvRole role(int index) {
    return DvRole.of((int) (field(index, 0) >>> 32));
  }

  /**
   * Why a deletion vector is malformed, {@link DvError#NONE} for any other verdict.
   *
   * @param index of the file in the request
   */
  public DvError error(int index) {
    return DvError.of((int) field(index, 1));
  }

  /**
   * The number that stands for {@link #error}.
   *
   * @param index of the file in the request
   */
  public int errorCode(int index) {
    return error(index).ordinal();
  }

  /**
   * Number of rows in the union; 0 unless the verdict is {@code MERGED} or {@code COVERS_FILE}.
   *
   * @param index of the file in the request
   */
  public long cardinality(int index) {
    return field(index, 4);
  }

  /**
   * The first row that decided the verdict (in both for {@code OVERLAP}, missing for
   * {@code NOT_AN_EXTENSION} and {@code BASE_NOT_IN_CURRENT}), or for {@code MALFORMED} the byte
   * offset in that bitmap.
   *
   * @param index of the file in the request
   */
  public long detail(int index) {
    return field(index, 5);
  }

  /**
   * What should have been there, for {@code MALFORMED}.
   *
   * @param index of the file in the request
   */
  public long expected(int index) {
    return field(index, 6);
  }

  /**
   * What was there instead, for {@code MALFORMED}.
   *
   * @param index of the file in the request
   */
  public long got(int index) {
    return field(index, 7);
  }

  /**
   * Length of the merged bitmap, 0 if there is none.
   *
   * @param index of the file in the request
   */
  public int length(int index) {
    long length = field(index, 3);
    if (length != 0) {
      long offset = entries[ENTRY_LONGS * index + 2];
      if (length < 0 || offset < bitmapsStart || offset > used - length) {
        throw bad("file " + index + ": " + length + " bytes at " + offset + " of " + used);
      }
    }
    return (int) length;
  }

  /**
   * A copy of the merged bitmap, from its magic number on; empty unless the verdict is
   * {@code MERGED}.
   *
   * @param index of the file in the request
   */
  public byte[] bytes(int index) {
    if (buffer == null || index < 0 || index >= fileCount) {
      check(index);
    }
    long[] e = entries;
    int at = ENTRY_LONGS * index;
    long length = e[at + 3];
    long offset = e[at + 2];
    if (length < 0 || offset > used - length || length != 0 && offset < bitmapsStart) {
      length(index);
    }
    byte[] copy = new byte[(int) length];
    if (length != 0) {
      byte[] all = bitmaps;
      if (all == null) {
        all = copyBitmaps();
      }
      if (all.length != 0) {
        System.arraycopy(all, (int) offset - bitmapsStart, copy, 0, (int) length);
      } else {
        buffer.get((int) offset, copy);
      }
    }
    return copy;
  }

  private byte[] copyBitmaps() {
    int length = used - bitmapsStart;
    boolean small = fileCount > 1 && length <= SMALL_BITMAP_BYTES * (long) fileCount;
    bitmaps = new byte[small ? length : 0];
    buffer.get(bitmapsStart, bitmaps);
    return bitmaps;
  }

  /**
   * The merged bitmap without a copy: a read-only view, valid as long as this response.
   *
   * @param index of the file in the request
   */
  public ByteBuffer buffer(int index) {
    int length = length(index);
    int offset = length == 0 ? 0 : (int) entries[ENTRY_LONGS * index + 2];
    return buffer.slice(offset, length).asReadOnlyBuffer().order(ByteOrder.LITTLE_ENDIAN);
  }

  /**
   * The finding in words, for a log line that already names the file. Rows count from 0.
   *
   * @param index of the file in the request
   */
  public String describe(int index) {
    Verdict verdict = verdict(index);
    switch (verdict) {
      case MERGED:
        return "merged, " + Long.toUnsignedString(cardinality(index)) + " rows deleted in all";
      case UNTOUCHED_OK:
        return "not touched by this transaction, and the winning commits only deleted rows";
      case COVERS_FILE:
        return "both sides together delete all " + Long.toUnsignedString(cardinality(index)) + " rows";
      case OVERLAP:
        return "both sides delete row " + row(index);
      case NOT_AN_EXTENSION:
        return "row " + row(index) + " was deleted when this transaction began and no longer is";
      case BASE_NOT_IN_CURRENT:
        return "row " + row(index) + " is deleted in the base but not in this transaction's deletion vector";
      case NOTHING_NEW:
        return "this transaction's deletion vector deletes nothing beyond its base";
      case MALFORMED:
        DvError error = error(index);
        return error + " in " + role(index).text() + " at byte " + row(index) + ": " + error.text()
            + ", expected " + Long.toUnsignedString(expected(index))
            + ", got " + Long.toUnsignedString(got(index));
      default:
        throw new AssertionError(verdict);
    }
  }

  void invalidate() {
    buffer = null;
  }

  private String row(int index) {
    return Long.toUnsignedString(detail(index));
  }

  /** One of the eight longs of a file's entry. */
  private long field(int index, int number) {
    check(index);
    return entries[ENTRY_LONGS * index + number];
  }

  private void check(int index) {
    if (buffer == null) {
      throw new IllegalStateException("the response is closed");
    }
    if (index < 0 || index >= fileCount) {
      throw new IndexOutOfBoundsException("file " + index + " of " + fileCount);
    }
  }

  private static NativeException bad(String what) {
    return new NativeException(NativeException.BAD_RESPONSE, "the library's answer is not valid: " + what);
  }
}
