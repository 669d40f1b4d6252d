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

/** A direct buffer with its address, which to ask for takes JNI longer than many a merge. */
final class DirectBuffer {
  /** Little endian, position 0, limit its capacity. */
  final ByteBuffer bytes;
  /** 0 until it has been asked for. */
  private long address;

  /** Allocates memory, filled with zeros. */
  DirectBuffer(int capacity) {
    bytes = ByteBuffer.allocateDirect(capacity).order(ByteOrder.LITTLE_ENDIAN);
  }

  /** Where the bytes are, as long as {@link #bytes} is reachable. The library must have been loaded. */
  long address() {
    if (address == 0) {
      address = NativeBridge.address0(bytes);
    }
    return address;
  }
}
