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

import io.github.deltarlc.jni.MergeRequest;
import io.github.deltarlc.jni.MergeResponse;
import io.github.deltarlc.jni.NativeBridge;
import io.github.deltarlc.jni.Verdict;

/** The merge through JNI, as the driver does it: one request for all files. */
final class NativeMerge {
  private NativeMerge() {}

  /** A request for these files, with their bytes copied in. */
  static MergeRequest request(Shape.Input... files) {
    long payload = 0;
    for (Shape.Input f : files) {
      payload += (long) f.base.length + f.current.length + f.winner.length;
    }
    MergeRequest request = new MergeRequest(files.length, payload);
    for (int i = 0; i < files.length; i++) {
      Shape.Input f = files[i];
      request.setFile(i,
          request.add(f.base), f.base.length, f.baseRows,
          request.add(f.current), f.current.length, f.currentRows,
          request.add(f.winner), f.winner.length, f.winnerRows, -1L);
    }
    return request;
  }

  /** The union, or null when the two sides have a row in common. */
  static byte[] bytes(MergeResponse response, int index) {
    return response.verdict(index) == Verdict.MERGED ? response.bytes(index) : null;
  }

  /** Bytes in, bytes out, all copies included. */
  static byte[][] merge(Shape.Input... files) {
    try (MergeRequest request = request(files)) {
      MergeResponse response = NativeBridge.resolve(request);
      byte[][] merged = new byte[files.length][];
      for (int i = 0; i < files.length; i++) {
        merged[i] = bytes(response, i);
      }
      return merged;
    }
  }
}
