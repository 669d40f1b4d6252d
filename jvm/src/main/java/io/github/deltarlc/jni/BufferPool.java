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

import java.util.ArrayDeque;
import java.util.Deque;

/**
 * Direct buffers, kept for reuse.
 *
 * <p>A new direct buffer is zeroed and its pages are faulted in, which costs more than the work on
 * it. So those of up to {@link #LARGEST_KEPT} bytes are kept, in sizes of powers of two, and together
 * never more than {@link #MAX_KEPT_BYTES} for the whole JVM, whatever the number of threads. Larger
 * ones are allocated to size and left to the garbage collector; they are not freed by hand, for a
 * reader that came too late would then write into memory that is no longer ours.
 */
final class BufferPool {
  private static final int SMALLEST = 64 << 10;

  static final int LARGEST_KEPT = 16 << 20;

  /** The most that the pool ever holds on to. */
  static final long MAX_KEPT_BYTES = 48L << 20;

  static final BufferPool SHARED = new BufferPool();

  /** Free buffers by size, {@code SMALLEST << i}; guarded by this, and held for a few instructions. */
  private final Deque<DirectBuffer>[] free;
  private long keptBytes;

  @SuppressWarnings({"unchecked", "rawtypes"})
  BufferPool() {
    free = new Deque[sizeClass(LARGEST_KEPT) + 1];
    for (int i = 0; i < free.length; i++) {
      free[i] = new ArrayDeque<>();
    }
  }

  /**
   * A buffer of at least {@code size} bytes. What is in it is undefined.
   */
  DirectBuffer take(int size) {
    if (size > LARGEST_KEPT) {
      return allocate(size);
    }
    int wanted = sizeClass(size);
    synchronized (this) {
      // One that is a little too large is better than a new one.
      for (int i = wanted; i < Math.min(wanted + 3, free.length); i++) {
        DirectBuffer kept = free[i].pollLast();
        if (kept != null) {
          keptBytes -= kept.bytes.capacity();
          return kept;
        }
      }
    }
    return allocate(SMALLEST << wanted);
  }

  /** Gives a buffer back. The caller must be sure that nobody writes to it any more. */
  void give(DirectBuffer buffer) {
    int capacity = buffer.bytes.capacity();
    if (capacity > LARGEST_KEPT) {
      return;
    }
    buffer.bytes.clear();
    synchronized (this) {
      if (keptBytes + capacity <= MAX_KEPT_BYTES) {
        keptBytes += capacity;
        free[sizeClass(capacity)].addLast(buffer); // the warmest is taken first
      }
    }
  }

  synchronized long keptBytes() {
    return keptBytes;
  }

  /** The least i such that {@code SMALLEST << i} holds {@code size} bytes. */
  private static int sizeClass(int size) {
    return size <= SMALLEST ? 0 : 32 - Integer.numberOfLeadingZeros((size - 1) / SMALLEST);
  }

  private static DirectBuffer allocate(int size) {
    try {
      return new DirectBuffer(size);
    } catch (OutOfMemoryError e) {
      // Of direct memory, not of the heap: the JVM is well, this pass is just too large for it.
      throw new NativeException(NativeException.DIRECT_MEMORY, "cannot allocate " + size
          + " bytes of direct memory; raise -XX:MaxDirectMemorySize or the driver's heap", e);
    }
  }
}
