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

package io.github.deltarlc;

import java.io.IOException;
import java.io.InputStream;
import java.util.Properties;

/**
 * What this jar was built for: versions, as the build wrote them into {@code build.properties}.
 *
 * <p>A class path without that file (an unusual packaging) gives {@code "unknown"} and ABI -1, which
 * no library answers with, so that the native layer then stays off with a clear reason.
 */
public final class BuildInfo {
  /** The resource that the build writes. */
  public static final String RESOURCE = "/io/github/deltarlc/build.properties";

  private static final Properties VALUES = read();

  private BuildInfo() {}

  /** Version of this jar, which the native library must have too. */
  public static String version() {
    return get("version");
  }

  /** Number of the native contract that this jar speaks, -1 if unknown. */
  public static int abiVersion() {
    try {
      return Integer.parseInt(get("abi"));
    } catch (NumberFormatException e) {
      return -1;
    }
  }

  /** Version of Delta Lake that this jar was compiled against, such as {@code 4.4.0}. */
  public static String deltaVersion() {
    return get("delta");
  }

  /** Version of Spark that this jar was compiled against, such as {@code 4.1.1}. */
  public static String sparkVersion() {
    return get("spark");
  }

  /** Version of Scala that this jar was compiled with. */
  public static String scalaVersion() {
    return get("scala");
  }

  private static String get(String key) {
    return VALUES.getProperty(key, "unknown");
  }

  private static Properties read() {
    Properties p = new Properties();
    try (InputStream in = BuildInfo.class.getResourceAsStream(RESOURCE)) {
      if (in != null) {
        p.load(in);
      }
    } catch (IOException | IllegalArgumentException e) {
      p.clear(); // a damaged file says as little as none
    }
    return p;
  }
}
