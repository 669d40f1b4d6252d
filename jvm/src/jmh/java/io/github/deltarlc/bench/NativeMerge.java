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

  /** Deletion vectors as the reader has them: those of one side stand in one array, as in a file. */
  static final class Spans {
    final byte[] base;
    final byte[] current;
    final byte[] winner;

    Spans(Shape.Input... files) {
      base = files.length == 1 ? files[0].base : new byte[sum(files, 0)];
      current = files.length == 1 ? files[0].current : new byte[sum(files, 1)];
      winner = files.length == 1 ? files[0].winner : new byte[sum(files, 2)];
      if (files.length > 1) {
        int[] at = new int[3];
        for (Shape.Input f : files) {
          System.arraycopy(f.base, 0, base, at[0], f.base.length);
          System.arraycopy(f.current, 0, current, at[1], f.current.length);
          System.arraycopy(f.winner, 0, winner, at[2], f.winner.length);
          at[0] += f.base.length;
          at[1] += f.current.length;
          at[2] += f.winner.length;
        }
      }
    }

    private static int sum(Shape.Input[] files, int side) {
      int sum = 0;
      for (Shape.Input f : files) {
        sum += (side == 0 ? f.base : side == 1 ? f.current : f.winner).length;
      }
      return sum;
    }
  }

  /** A request for these files, as they stand in {@code spans}. */
  static MergeRequest request(Spans spans, Shape.Input... files) {
    MergeRequest request = new MergeRequest(files.length);
    int base = request.add(spans.base);
    int current = request.add(spans.current);
    int winner = request.add(spans.winner);
    int baseAt = 0;
    int currentAt = 0;
    int winnerAt = 0;
    for (int i = 0; i < files.length; i++) {
      Shape.Input f = files[i];
      int baseLength = f.base.length;
      int currentLength = f.current.length;
      int winnerLength = f.winner.length;
      request.setFile(i,
          base, baseAt, baseLength, f.baseRows,
          current, currentAt, currentLength, f.currentRows,
          winner, winnerAt, winnerLength, f.winnerRows, -1L);
      baseAt += baseLength;
      currentAt += currentLength;
      winnerAt += winnerLength;
    }
    return request;
  }

  /** The union, or null when the two sides have a row in common. */
  static byte[] bytes(MergeResponse response, int index) {
    return response.verdict(index) == Verdict.MERGED ? response.bytes(index) : null;
  }

  /** From the arrays that were read to arrays that can be written. */
  static byte[][] merge(Spans spans, Shape.Input... files) {
    try (MergeRequest request = request(spans, files)) {
      MergeResponse response = NativeBridge.resolve(request);
      byte[][] merged = new byte[files.length][];
      for (int i = 0; i < files.length; i++) {
        merged[i] = bytes(response, i);
      }
      return merged;
    }
  }
}
