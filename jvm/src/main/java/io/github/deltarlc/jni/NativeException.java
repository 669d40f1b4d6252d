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

import java.util.Objects;

/**
 * The native layer could not answer. A caller treats it as "not proven": nothing is merged.
 *
 * <p>Thrown by the library itself, which is why the constructor with two strings must stay, and by
 * the Java side. The codes of the Java side are the constants here; the library's are {@link #PANIC}
 * and its own names for a request that breaks the contract. That a deletion vector is malformed or
 * that two overlap is no exception but a {@link Verdict}.
 */
public class NativeException extends RuntimeException {
  /** The library is missing, damaged, foreign or of another version; see {@link NativeLibrary}. */
  public static final String UNAVAILABLE = "NATIVE_UNAVAILABLE";
  /** A bug in the library, caught at the boundary; the message keeps what it said. */
  public static final String PANIC = "PANIC";
  /** The merged deletion vectors of one request do not fit into one buffer of 2 GiB. */
  public static final String RESPONSE_TOO_LARGE = "RESPONSE_TOO_LARGE";
  /** The library's answer breaks the contract. */
  public static final String BAD_RESPONSE = "BAD_RESPONSE";
  /** The JVM's direct memory ({@code -XX:MaxDirectMemorySize}) does not suffice for the pass. */
  public static final String DIRECT_MEMORY = "DIRECT_MEMORY";

  private static final long serialVersionUID = 1L;

  /** Stable name of the kind of failure. */
  private final String code;
  /** The message without the code. */
  private final String reason;

  /**
   * Called by the library through JNI.
   *
   * @param code stable name of the kind of failure
   * @param message what happened, with the values involved
   */
  public NativeException(String code, String message) {
    this(code, message, null);
  }

  /**
   * As the other constructor, with a cause.
   *
   * @param code stable name of the kind of failure
   * @param message what happened, with the values involved
   * @param cause may be null
   */
  public NativeException(String code, String message, Throwable cause) {
    super(code + ": " + message, cause);
    this.code = Objects.requireNonNull(code, "code");
    this.reason = String.valueOf(message);
  }

  /** Stable name of the kind of failure, such as {@code PANIC}; the message begins with it. */
  public String code() {
    return code;
  }

  /** The message without the code. */
  public String reason() {
    return reason;
  }
}
