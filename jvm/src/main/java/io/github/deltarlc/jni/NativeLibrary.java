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
 * Whether the native library is there, worked out once, on first use.
 *
 * <p>Where it is looked for:
 * <ol>
 *   <li>the file that {@code -Dio.github.deltarlc.native.path} names; if the property is set, nowhere else;
 *   <li>in the jar, as {@code native/OS-ARCH/libdelta_rlc-VERSION.so}. It is copied to a directory of
 *       its own, for its owner only, below {@code -Dio.github.deltarlc.native.tmpdir} or
 *       {@code java.io.tmpdir}, compared with the digest in the jar, loaded, and deleted at once.
 * </ol>
 * A library of another version than the jar is not used.
 *
 * <p>Nothing here throws but {@link #ensureAvailable}: without the library a session goes on as with
 * stock Delta, and {@link #unavailabilityCause} says what to do.
 */
public final class NativeLibrary {
  /** System property: path of the library; set, it is the only place where it is looked for. */
  public static final String PATH_PROPERTY = "io.github.deltarlc.native.path";
  /** System property: directory for the copy out of the jar; it must allow execution. */
  public static final String TMPDIR_PROPERTY = "io.github.deltarlc.native.tmpdir";

  private NativeLibrary() {}

  /** Whether {@link NativeBridge} can be used. */
  public static boolean isAvailable() {
    return Holder.OUTCOME.cause() == null;
  }

  /** Why it cannot be used, with what was looked for and where in the message; null if it can. */
  public static NativeException unavailabilityCause() {
    return Holder.OUTCOME.cause();
  }

  /**
   * Returns if {@link NativeBridge} can be used.
   *
   * @throws NativeException with code {@code NATIVE_UNAVAILABLE}, and the first failure as its cause
   */
  public static void ensureAvailable() {
    NativeException cause = Holder.OUTCOME.cause();
    if (cause != null) {
      // A new one for each caller: the stack trace of the first attempt is in the cause.
      throw new NativeException(NativeException.UNAVAILABLE, cause.reason(), cause);
    }
  }

  /** One line for the log: version, contract, platform, and where the library came from or why it did not. */
  public static String describe() {
    return Holder.OUTCOME.description();
  }

  private static final class Holder {
    static final NativeLoader.Outcome OUTCOME = NativeLoader.ofThisJvm().load();
  }
}
