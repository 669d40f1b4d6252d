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

import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray;
import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArrayFormat;

/**
 * The merge with Delta's own class: read three, and, andNot, isEmpty, or, serialize.
 *
 * <p>The first peer of the benchmarks. It is given less to do than ours: it does not check that the
 * base is part of both sides, nor the cardinalities, and it does not run-optimise the result.
 */
final class DeltaMerge {
  private DeltaMerge() {}

  /** The union, or null when the two sides have a row in common. */
  static byte[] merge(Shape.Input in) {
    RoaringBitmapArray base = RoaringBitmapArray.readFrom(in.base);
    RoaringBitmapArray current = RoaringBitmapArray.readFrom(in.current);
    RoaringBitmapArray winner = RoaringBitmapArray.readFrom(in.winner);
    RoaringBitmapArray common = current.copy();
    common.and(winner);
    common.andNot(base);
    if (!common.isEmpty()) {
      return null;
    }
    current.or(winner);
    return current.serializeAsByteArray(RoaringBitmapArrayFormat.Portable());
  }
}
