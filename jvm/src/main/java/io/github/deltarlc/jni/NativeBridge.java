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

import java.lang.ref.Reference;
import java.nio.ByteBuffer;

/**
 * The calls into the native library.
 *
 * <p>All are functions of their arguments alone: no handle, no state, no thread of its own, and any
 * number of threads may call at once. Natives are bound by the names of this class, so it must not be
 * relocated when jars are merged.
 */
public final class NativeBridge {
  private NativeBridge() {}

  /**
   * Decides all files of a pass in one call: compares, and where nothing overlaps unites and
   * serializes. Time is linear in the bytes of the request at worst.
   *
   * @param request complete; it stays usable, and owns the memory of the response
   * @return valid until {@code request} is closed or resolved again
   * @throws NativeException if the library is not there, refuses the request as a whole, or panics; a
   *     malformed deletion vector is no exception but a verdict
   */
  public static MergeResponse resolve(MergeRequest request) {
    long[] table = request.table();
    byte[] gathered = request.gathered();
    byte[][] arrays = request.arrays();
    NativeLibrary.ensureAvailable();
    long size = Math.min(request.responseEstimate(), MergeRequest.MAX_BYTES);
    while (true) {
      DirectBuffer out = request.responseBuffer((int) size);
      int capacity = out.bytes.capacity();
      long used;
      try {
        used = resolve0(gathered, request.gatheredLength(), arrays, table, table.length, out.address(), capacity);
      } finally {
        Reference.reachabilityFence(out.bytes); // the native side has only its address
      }
      if (used > 0) {
        return request.answered(new MergeResponse(out.bytes, used, request.fileCount()));
      }
      long needed = -used;
      if (needed > MergeRequest.MAX_BYTES) {
        throw new NativeException(NativeException.RESPONSE_TOO_LARGE, "the merged deletion vectors need "
            + needed + " bytes, more than " + MergeRequest.MAX_BYTES + "; split the pass");
      }
      if (needed <= capacity) { // it would ask for ever
        throw new NativeException(NativeException.BAD_RESPONSE, "the library asks for " + needed
            + " bytes and had " + capacity);
      }
      size = needed;
    }
  }

  /**
   * Number of rows that both sides of a file deleted beyond the base, for the message about a
   * conflict; {@link #resolve} itself stops at the first.
   *
   * @param request complete
   * @param fileIndex below its number of files
   * @throws NativeException also when one of the file's deletion vectors is malformed
   */
  public static long overlapCount(MergeRequest request, int fileIndex) {
    request.checkIndex(fileIndex);
    long[] table = request.table();
    NativeLibrary.ensureAvailable();
    return overlapCount0(
        request.gathered(), request.gatheredLength(), request.arrays(), table, table.length, fileIndex);
  }

  /** Number of the contract the library speaks; only the loader calls it. */
  static native int abiVersion();

  /** Version of the library; only the loader calls it. */
  static native String version();

  /** Where the memory of a direct buffer is. */
  static native long address0(ByteBuffer buffer);

  /**
   * Bytes of the response that were used, or less than 0: minus the number that are needed. The
   * response is given by its address, see {@link DirectBuffer}.
   */
  private static native long resolve0(
      byte[] gathered, int gatheredLength, byte[][] arrays, long[] table, int tableLength,
      long response, long responseLength);

  private static native long overlapCount0(
      byte[] gathered, int gatheredLength, byte[][] arrays, long[] table, int tableLength, int fileIndex);
}
