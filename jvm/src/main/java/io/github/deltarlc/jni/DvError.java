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

/**
 * Why the bytes of a deletion vector were refused. The ordinals are part of the contract; the names
 * are what logs and documents use.
 */
public enum DvError {
  /** Nothing was refused. */
  NONE("no error"),
  /** The bytes end before the bitmap does. */
  DV_TRUNCATED("the bytes end too early"),
  /** Does not begin with a known magic number. */
  DV_BAD_MAGIC("unknown magic number"),
  /** A 32-bit bitmap in it begins with an unknown cookie. */
  DV_BAD_COOKIE("unknown cookie of a 32-bit bitmap"),
  /** The keys are not strictly ascending. */
  DV_KEY_ORDER("keys are not strictly ascending"),
  /** A key lies beyond what a row position can have. */
  DV_KEY_RANGE("key out of range"),
  /** The size of a container does not fit its kind. */
  DV_CONTAINER_SIZE("impossible size of a container"),
  /** The values in a container are not strictly ascending. */
  DV_VALUE_ORDER("values are not strictly ascending"),
  /** A run leaves its container, or runs overlap or touch. */
  DV_RUN_RANGE("impossible run"),
  /** The bits that are set are not as many as the header says. */
  DV_BITSET_CARDINALITY("number of bits set differs from the header"),
  /** The offsets in the header do not point at the containers. */
  DV_OFFSET_HEADER("wrong container offset"),
  /** Bytes are left over after the bitmap. */
  DV_TRAILING_BYTES("bytes left over at the end"),
  /** The number of rows differs from the one in the log. */
  DV_CARDINALITY("cardinality differs from the one in the log"),
  /** A row lies beyond the end of the file. */
  DV_ROW_RANGE("row position beyond the end of the file"),
  /** More bitmaps or containers than there can be. */
  DV_TOO_MANY("too many bitmaps or containers");

  private static final DvError[] BY_CODE = values();

  private final String text;

  DvError(String text) {
    this.text = text;
  }

  /** The words for it in a message. */
  public String text() {
    return text;
  }

  static DvError of(int code) {
    if (code < 0 || code >= BY_CODE.length) {
      throw new NativeException(NativeException.BAD_RESPONSE, "unknown error code " + code);
    }
    return BY_CODE[code];
  }
}
