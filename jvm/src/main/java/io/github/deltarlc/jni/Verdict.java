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

/** What the native side found for one file. The numbers are part of the contract. */
public enum Verdict {
  /** The two sides touch different rows; the response holds the union and its cardinality. */
  MERGED(1),
  /** The loser did not touch the file and the winner only took rows away: nothing to write. */
  UNTOUCHED_OK(2),
  /** As {@link #MERGED}, but no row is left: the file goes, and there is no bitmap. */
  COVERS_FILE(3),
  /** Both sides deleted a row that was there when both began. */
  OVERLAP(4),
  /** The winner's bitmap lacks a row of the base, as after a RESTORE. */
  NOT_AN_EXTENSION(5),
  /** The loser's own bitmap lacks a row of the base it read the file with. */
  BASE_NOT_IN_CURRENT(6),
  /** The loser's bitmap equals its base: it deleted nothing, so there is nothing to merge. */
  NOTHING_NEW(7),
  /** One of the three is no valid bitmap; the role and the error say which and why. */
  MALFORMED(8);

  private static final Verdict[] BY_CODE = new Verdict[9];

  static {
    for (Verdict v : values()) {
      BY_CODE[v.code] = v;
    }
  }

  private final int code;

  Verdict(int code) {
    this.code = code;
  }

  /** The number that stands for it in the response. */
  public int code() {
    return code;
  }

  static Verdict of(int code) {
    if (code < 1 || code >= BY_CODE.length) {
      throw new NativeException(NativeException.BAD_RESPONSE, "unknown verdict " + code);
    }
    return BY_CODE[code];
  }
}
