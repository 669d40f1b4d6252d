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

import io.github.deltarlc.BuildInfo;
import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.net.URLConnection;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardCopyOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Locale;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * One attempt to find and load the library; see {@link NativeLibrary} for the order. What it takes
 * from the JVM is given to it, so that every way to fail can be tested in one JVM.
 */
final class NativeLoader {
  /** What came of it: {@code cause} is null if the library is loaded and of the right version. */
  record Outcome(NativeException cause, String description) {}

  private static final Pattern GLIBC = Pattern.compile("version `GLIBC_([0-9.]+)' not found");

  private final Function<String, String> properties;
  private final Function<String, URL> resources;
  private final String expectedVersion;
  private final int expectedAbi;

  /**
   * @param properties system properties by name, null for one that is not set
   * @param resources resources of the jar by absolute name, null for one that is not there
   * @param expectedVersion what the library must answer
   * @param expectedAbi likewise
   */
  NativeLoader(Function<String, String> properties, Function<String, URL> resources,
      String expectedVersion, int expectedAbi) {
    this.properties = properties;
    this.resources = resources;
    this.expectedVersion = expectedVersion;
    this.expectedAbi = expectedAbi;
  }

  static NativeLoader ofThisJvm() {
    // Through our own class: with --jars the application's loader is not the one that has us.
    return new NativeLoader(System::getProperty, NativeLoader.class::getResource,
        BuildInfo.version(), BuildInfo.abiVersion());
  }

  /** Tries, and never throws. */
  Outcome load() {
    try {
      String origin = loadAndCheck();
      return new Outcome(null, "delta-rlc " + expectedVersion + " (ABI " + expectedAbi + ", "
          + platform() + ") loaded from " + origin);
    } catch (NativeException e) {
      return failed(e);
    } catch (Throwable e) { // whatever it is, a session must not die of it
      return failed(unavailable("unexpected failure: " + e, e));
    }
  }

  private Outcome failed(NativeException e) {
    return new Outcome(e, "delta-rlc " + expectedVersion + " is not available: " + e.reason());
  }

  private String loadAndCheck() {
    String path = properties.apply(NativeLibrary.PATH_PROPERTY);
    String origin = path != null && !path.isEmpty() ? loadFromPath(path) : loadFromJar();
    checkVersion(origin);
    return origin;
  }

  // ---- -Dio.github.deltarlc.native.path -----------------------------------------------------

  private String loadFromPath(String value) {
    String setting = "-D" + NativeLibrary.PATH_PROPERTY + "=" + value;
    String only = "; as the property is set, the library in the jar was not looked for";
    Path file;
    try {
      file = Paths.get(value).toAbsolutePath();
    } catch (InvalidPathException e) {
      throw unavailable(setting + " is not a path" + only, e);
    }
    if (!Files.isRegularFile(file)) {
      throw unavailable("no file at " + file + ", which " + setting + " names" + only, null);
    }
    try {
      System.load(file.toString());
    } catch (UnsatisfiedLinkError e) {
      throw unavailable("cannot load " + file + ", which " + setting + " names: " + explain(e, file) + only, e);
    }
    return file + " (" + NativeLibrary.PATH_PROPERTY + ")";
  }

  // ---- the library in the jar ---------------------------------------------------------------

  private String loadFromJar() {
    String name = "libdelta_rlc-" + expectedVersion + ".so";
    String resource = "/native/" + platform() + "/" + name;
    URL library = resources.apply(resource);
    if (library == null) {
      throw unavailable("no " + resource.substring(1) + " in " + home() + ": this jar was built without a library for "
          + platform() + " (releases have linux-x86_64 and linux-aarch64); build one and name it with -D"
          + NativeLibrary.PATH_PROPERTY, null);
    }
    String expectedDigest = digestOf(resource + ".sha256");
    Path parent = tempParent();
    Path dir = null;
    Path file = null;
    try {
      dir = Files.createTempDirectory(parent, "delta-rlc-"); // owner-only where there are POSIX permissions
      file = dir.resolve(name);
      copy(library, file);
      String digest = sha256(file);
      if (!digest.equals(expectedDigest)) {
        throw unavailable("the copy of " + library + " at " + file + " is damaged: SHA-256 " + digest
            + ", but the jar says " + expectedDigest, null);
      }
      try {
        System.load(file.toString());
      } catch (UnsatisfiedLinkError e) {
        throw unavailable("cannot load " + file + ", copied from " + library + ": " + explain(e, file), e);
      }
      return library.toString();
    } catch (IOException e) {
      throw unavailable("cannot copy " + library + " to a new directory below " + parent + ": " + reason(e)
          + "; name a directory that can be written with -D" + NativeLibrary.TMPDIR_PROPERTY, e);
    } finally {
      delete(file); // loaded, it stays mapped without its name
      delete(dir);
    }
  }

  private Path tempParent() {
    String own = properties.apply(NativeLibrary.TMPDIR_PROPERTY);
    boolean ours = own != null && !own.isEmpty();
    String value = ours ? own : properties.apply("java.io.tmpdir");
    try {
      Path parent = Paths.get(value).toAbsolutePath();
      if (!Files.isDirectory(parent)) {
        throw unavailable("no directory at " + parent + " (-D"
            + (ours ? NativeLibrary.TMPDIR_PROPERTY : "java.io.tmpdir") + ") to copy the library to; name one with -D"
            + NativeLibrary.TMPDIR_PROPERTY, null);
      }
      return parent;
    } catch (InvalidPathException | NullPointerException e) {
      throw unavailable("not a path for temporary files: " + value, e);
    }
  }

  private String digestOf(String resource) {
    URL url = resources.apply(resource);
    if (url == null) {
      throw unavailable("no " + resource.substring(1) + " in " + home()
          + ", so the library beside it cannot be checked: the jar was repackaged or is damaged", null);
    }
    try (InputStream in = open(url)) {
      return new String(in.readNBytes(1024), StandardCharsets.US_ASCII).trim();
    } catch (IOException e) {
      throw unavailable("cannot read " + url + ": " + reason(e), e);
    }
  }

  private static void copy(URL from, Path to) throws IOException {
    try (InputStream in = open(from)) {
      Files.copy(in, to, StandardCopyOption.REPLACE_EXISTING);
    }
    try {
      Files.setPosixFilePermissions(to, PosixFilePermissions.fromString("rwx------"));
    } catch (UnsupportedOperationException e) {
      // not a POSIX file system: the directory's protection is all there is
    }
  }

  private static InputStream open(URL url) throws IOException {
    URLConnection connection = url.openConnection();
    connection.setUseCaches(false); // the cache would share, and close, one JarFile among class loaders
    return connection.getInputStream();
  }

  private static void delete(Path path) {
    if (path != null) {
      try {
        Files.deleteIfExists(path);
      } catch (IOException e) {
        path.toFile().deleteOnExit(); // a file system which keeps open files
      }
    }
  }

  private static String sha256(Path file) throws IOException {
    try {
      byte[] digest = MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(file));
      StringBuilder hex = new StringBuilder(64);
      for (byte b : digest) {
        hex.append(String.format(Locale.ROOT, "%02x", b));
      }
      return hex.toString();
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException(e); // every JDK has it
    }
  }

  // ---- after loading ------------------------------------------------------------------------

  private void checkVersion(String origin) {
    int abi;
    String version;
    try {
      abi = NativeBridge.abiVersion();
      version = abi == expectedAbi ? NativeBridge.version() : null;
    } catch (UnsatisfiedLinkError e) {
      throw unavailable(origin + " is not a library of delta-rlc: " + e.getMessage(), e);
    }
    if (abi != expectedAbi) {
      throw unavailable(origin + " has ABI " + abi + ", and this jar, version " + expectedVersion
          + ", needs " + expectedAbi, null);
    }
    if (!expectedVersion.equals(version)) {
      throw unavailable(origin + " is version " + version + ", and this jar is " + expectedVersion, null);
    }
  }

  // ---- diagnostics --------------------------------------------------------------------------

  /** The system's message, and what it means where that is known. */
  static String explain(UnsatisfiedLinkError error, Path file) {
    String message = String.valueOf(error.getMessage());
    Matcher glibc = GLIBC.matcher(message);
    if (glibc.find()) {
      return message + ". The library needs glibc " + glibc.group(1)
          + " or newer, and this system's is older: use the release, which needs 2.17, or build on this system";
    }
    if (message.contains("already loaded in another classloader")) {
      return message + ". A JVM loads one file for one class loader only: give each its own copy";
    }
    if (!Files.isExecutable(file) || message.contains("failed to map segment")) {
      return message + ". " + file.getParent() + " seems to be mounted noexec, or the file may not be executed:"
          + " name another directory with -D" + NativeLibrary.TMPDIR_PROPERTY;
    }
    if (message.contains("ld-linux") || message.contains("Error relocating")) {
      return message + ". The library needs glibc, and this system seems to have another C library";
    }
    return message;
  }

  /** OS and architecture as in the names of resources, such as {@code linux-x86_64}. */
  private String platform() {
    return normalise("os.name") + "-" + normalise("os.arch");
  }

  private String normalise(String property) {
    String value = String.valueOf(properties.apply(property)).toLowerCase(Locale.ROOT).replaceAll("[^a-z0-9_]", "");
    switch (value) {
      case "amd64":
      case "x64":
        return "x86_64";
      case "arm64":
        return "aarch64";
      default:
        return value.startsWith("windows") ? "windows" : value;
    }
  }

  /** Where our classes come from. */
  private static String home() {
    try {
      return String.valueOf(NativeLoader.class.getProtectionDomain().getCodeSource().getLocation());
    } catch (RuntimeException e) {
      return "the class path";
    }
  }

  private static String reason(IOException e) {
    // A FileSystemException's message is only the path; the class says what was wrong with it.
    return e instanceof FileSystemException ? e.toString() : String.valueOf(e.getMessage());
  }

  private static NativeException unavailable(String message, Throwable cause) {
    return new NativeException(NativeException.UNAVAILABLE, message, cause);
  }
}
