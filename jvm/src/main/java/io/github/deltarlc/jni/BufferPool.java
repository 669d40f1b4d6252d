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
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Direct buffers, kept for reuse.
 *
 * <p>A new direct buffer is zeroed and its pages are faulted in, which costs more than the work on
 * it. So those up to 16 MiB are kept, in four size classes of {@code 8 x 64 KiB, 4 x 512 KiB,
 * 4 x 4 MiB, 2 x 16 MiB}: at most {@link #MAX_KEPT_BYTES} for the whole JVM, whatever the number of
 * threads, and only once as many were in use at one time. Larger ones are allocated to size and left
 * to the garbage collector; they are not freed by hand, for a reader that came too late would then
 * write into memory that is no longer ours.
 */
final class BufferPool {
  private static final int[] SIZES = {64 << 10, 512 << 10, 4 << 20, 16 << 20};
  private static final int[] KEEP = {8, 4, 4, 2};

  /** The most that the pool ever holds on to: 50.5 MiB. */
  static final long MAX_KEPT_BYTES = (8L << 16) + (4L << 19) + (4L << 22) + (2L << 24);

  static final BufferPool SHARED = new BufferPool();

  private final SizeClass[] classes = new SizeClass[SIZES.length];

  BufferPool() {
    for (int i = 0; i < classes.length; i++) {
      classes[i] = new SizeClass(KEEP[i]);
    }
  }

  /**
   * A little-endian direct buffer of at least {@code size} bytes, position 0, limit its capacity.
   * What is in it is undefined.
   */
  ByteBuffer take(int size) {
    int c = classOf(size);
    if (c < 0) {
      return allocate(size);
    }
    ByteBuffer kept = classes[c].poll();
    return kept != null ? kept : allocate(SIZES[c]);
  }

  /** Gives a buffer back. The caller must be sure that nobody writes to it any more. */
  void give(ByteBuffer buffer) {
    int c = classOf(buffer.capacity());
    if (c >= 0 && SIZES[c] == buffer.capacity()) {
      buffer.clear();
      classes[c].offer(buffer);
    }
  }

  private static int classOf(int size) {
    for (int i = 0; i < SIZES.length; i++) {
      if (size <= SIZES[i]) {
        return i;
      }
    }
    return -1;
  }

  private static ByteBuffer allocate(int size) {
    try {
      return ByteBuffer.allocateDirect(size).order(ByteOrder.LITTLE_ENDIAN);
    } catch (OutOfMemoryError e) {
      // Of direct memory, not of the heap: the JVM is well, this pass is just too large for it.
      throw new NativeException(NativeException.DIRECT_MEMORY, "cannot allocate " + size
          + " bytes of direct memory; raise -XX:MaxDirectMemorySize or the driver's heap", e);
    }
  }

  private static final class SizeClass {
    private final int keep;
    private final ConcurrentLinkedDeque<ByteBuffer> free = new ConcurrentLinkedDeque<>();
    private final AtomicInteger count = new AtomicInteger();

    SizeClass(int keep) {
      this.keep = keep;
    }

    ByteBuffer poll() {
      ByteBuffer b = free.pollFirst();
      if (b != null) {
        count.decrementAndGet();
      }
      return b;
    }

    void offer(ByteBuffer b) {
      if (count.incrementAndGet() <= keep) {
        free.offerFirst(b); // the warmest first
      } else {
        count.decrementAndGet();
      }
    }
  }
}
