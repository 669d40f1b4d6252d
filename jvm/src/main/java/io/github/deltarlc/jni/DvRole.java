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

/** Which of a file's three deletion vectors is meant. The ordinals are part of the contract. */
public enum DvRole {
  /** None of them. */
  NONE("no deletion vector"),
  /** The one the loser read the file with. */
  BASE("the base deletion vector"),
  /** The one the loser wants to commit. */
  CURRENT("the deletion vector of this transaction"),
  /** The last winner's, which is the live one. */
  WINNER("the deletion vector of the winning commit");

  private static final DvRole[] BY_CODE = values();

  private final String text;

  DvRole(String text) {
    this.text = text;
  }

  /** The words for it in a message. */
  public String text() {
    return text;
  }

  static DvRole of(int code) {
    if (code < 0 || code >= BY_CODE.length) {
      throw new NativeException(NativeException.BAD_RESPONSE, "unknown role " + code);
    }
    return BY_CODE[code];
  }
}
