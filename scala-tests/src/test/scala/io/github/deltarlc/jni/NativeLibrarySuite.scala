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

package io.github.deltarlc.jni

import java.io.File
import java.net.URL
import java.nio.charset.StandardCharsets
import java.nio.file.{Files, Path}
import java.nio.file.attribute.PosixFilePermissions
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._

import io.github.deltarlc.BuildInfo
import org.scalatest.BeforeAndAfterEach
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.delta.rlc.harness.TableFiles

/** Every way in which the library can be missing or wrong, with what is then said about it. */
class NativeLibrarySuite extends AnyFunSuite with BeforeAndAfterEach {

  private val version = BuildInfo.version
  private val platform =
    if (System.getProperty("os.arch") == "aarch64") "linux-aarch64" else "linux-x86_64"
  private val resource = s"/native/$platform/libdelta_rlc-$version.so"
  private val digest = s"$resource.sha256"
  private var dir: Path = _

  override def beforeEach(): Unit = dir = Files.createTempDirectory("native-library-suite-")
  override def afterEach(): Unit = delete(dir.toFile)

  private def delete(file: File): Unit = {
    Option(file.listFiles()).foreach(_.foreach(delete))
    file.delete()
  }

  private def jar(name: String): URL = getClass.getResource(name)

  private def loader(
      properties: Map[String, String] = Map.empty,
      resources: String => URL = jar,
      version: String = version,
      abi: Int = BuildInfo.abiVersion): NativeLoader = {
    val own = Map(NativeLibrary.TMPDIR_PROPERTY -> dir.toString) ++ properties
    new NativeLoader(
      name => own.getOrElse(name, System.getProperty(name)), name => resources(name), version, abi)
  }

  /** The cause's message, after the checks which hold for every failure. */
  private def failure(loader: NativeLoader): String = {
    val outcome = loader.load()
    assert(outcome.cause != null, outcome.description)
    assert(outcome.cause.code == NativeException.UNAVAILABLE)
    assert(outcome.description == s"delta-rlc ${loaderVersion(outcome)} is not available: ${outcome.cause.reason}")
    assert(leftovers.isEmpty, "something was left behind")
    outcome.cause.reason
  }

  private def loaderVersion(outcome: NativeLoader.Outcome): String =
    outcome.description.stripPrefix("delta-rlc ").takeWhile(_ != ' ')

  private def leftovers: Seq[String] =
    Files.list(dir).iterator.asScala.map(_.getFileName.toString).filter(_.startsWith("delta-rlc-")).toSeq

  private def file(name: String, content: Array[Byte]): Path = Files.write(dir.resolve(name), content)

  private def contains(message: String, parts: String*): Unit =
    parts.foreach(p => assert(message.contains(p), s"no [$p] in: $message"))

  test("the library of this jar loads, says so in one line, and leaves nothing behind") {
    val outcome = loader().load()
    assert(outcome.cause == null, outcome.description)
    contains(outcome.description, s"delta-rlc $version (ABI ${BuildInfo.abiVersion}, $platform) loaded from ",
      resource)
    assert(leftovers.isEmpty)
  }

  test("this JVM's own attempt is available, and says nothing else") {
    assert(NativeLibrary.isAvailable, NativeLibrary.describe)
    assert(NativeLibrary.unavailabilityCause == null)
    NativeLibrary.ensureAvailable()
    assert(NativeBridge.version == version)
    assert(NativeBridge.abiVersion == BuildInfo.abiVersion)
  }

  test("build.properties says what the build said") {
    assert(version.matches("""\d+\.\d+\.\d+.*"""))
    assert(BuildInfo.abiVersion == 4)
    assert(BuildInfo.deltaVersion.startsWith("4."))
    // Other patch releases of them may be what the tests run on: Spark 4.0 has an older Scala.
    def minor(of: String): String = of.split('.').take(2).mkString(".")
    assert(minor(BuildInfo.sparkVersion) == minor(org.apache.spark.SPARK_VERSION))
    assert(minor(BuildInfo.scalaVersion) == minor(scala.util.Properties.versionNumberString))
  }

  test("no resource for this platform") {
    val message = failure(loader(Map("os.name" -> "Mac OS X", "os.arch" -> "aarch64")))
    contains(message, s"no native/macosx-aarch64/libdelta_rlc-$version.so in ", "linux-x86_64", NativeLibrary.PATH_PROPERTY)
  }

  test("no resource of this version") {
    contains(failure(loader(version = "9.9.9")), s"no native/$platform/libdelta_rlc-9.9.9.so in ")
  }

  test("the usual spellings of one platform find one resource") {
    val here = System.getProperty("os.arch")
    val spellings = Seq(Seq("amd64", "x86_64", "X64"), Seq("aarch64", "AArch64", "arm64"))
      .find(_.contains(here)).getOrElse(Seq(here))
    for (os <- Seq("Linux", "linux", "LINUX"); arch <- spellings) {
      assert(loader(Map("os.name" -> os, "os.arch" -> arch)).load().cause == null)
    }
  }

  test("a library of another version") {
    val other = failure(loader(
      version = "9.9.9",
      resources = name => jar(name.replace("9.9.9", version))))
    contains(other, s" is version $version, and this jar is 9.9.9")
  }

  test("a library of another ABI") {
    contains(failure(loader(abi = 77)), s" has ABI ${BuildInfo.abiVersion}, and this jar, version $version, needs 77")
  }

  test("a copy that is not what the jar promised") {
    val wrong = file("wrong.sha256", ("0" * 64).getBytes(StandardCharsets.US_ASCII)).toUri.toURL
    val message = failure(loader(resources = name => if (name == digest) wrong else jar(name)))
    contains(message, "is damaged: SHA-256 ", s"but the jar says ${"0" * 64}")
  }

  test("a library that was damaged in the jar") {
    val bytes = jar(resource).openStream().readAllBytes()
    bytes(bytes.length / 2) = (bytes(bytes.length / 2) ^ 1).toByte
    val damaged = file("damaged.so", bytes).toUri.toURL
    contains(failure(loader(resources = name => if (name == resource) damaged else jar(name))), "is damaged: SHA-256 ")
  }

  test("no digest beside the library") {
    val message = failure(loader(resources = name => if (name == digest) null else jar(name)))
    contains(message, s"no ${digest.drop(1)} in ", "cannot be checked")
  }

  test("a resource that is no library") {
    val text = file("text.so", "not a library".getBytes(StandardCharsets.US_ASCII))
    val sum = file("text.sha256",
      java.security.MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(text))
        .map(b => f"$b%02x").mkString.getBytes(StandardCharsets.US_ASCII))
    val message = failure(loader(resources = name => if (name == digest) sum.toUri.toURL else text.toUri.toURL))
    contains(message, "cannot load ", "copied from ", text.toString)
  }

  test("the property names a file, and it is used instead of the jar's") {
    val copy = file("mine.so", jar(resource).openStream().readAllBytes())
    val outcome = loader(Map(NativeLibrary.PATH_PROPERTY -> copy.toString), _ => null).load()
    assert(outcome.cause == null, outcome.description)
    contains(outcome.description, copy.toString, NativeLibrary.PATH_PROPERTY)
    assert(Files.exists(copy), "a file that is not ours was deleted")
  }

  test("the property names no file: no fallback to the jar") {
    val message = failure(loader(Map(NativeLibrary.PATH_PROPERTY -> s"$dir/none.so")))
    contains(message, s"no file at $dir/none.so", s"-D${NativeLibrary.PATH_PROPERTY}=$dir/none.so",
      "the library in the jar was not looked for")
  }

  test("the property names a directory, or something that is no library: no fallback to the jar") {
    contains(failure(loader(Map(NativeLibrary.PATH_PROPERTY -> dir.toString))), s"no file at $dir")
    val text = file("text.so", "not a library".getBytes(StandardCharsets.US_ASCII))
    contains(failure(loader(Map(NativeLibrary.PATH_PROPERTY -> text.toString))),
      s"cannot load $text", "the library in the jar was not looked for")
    contains(failure(loader(Map(NativeLibrary.PATH_PROPERTY -> "\u0000"))), "is not a path")
  }

  test("a foreign library is told from ours") {
    // One that every JDK has; none of our functions are in it. In a JVM of its own: this one has ours bound.
    val foreign = Seq("libnet.so", "libzip.so")
      .map(n => new File(System.getProperty("java.home"), s"lib/$n")).find(_.exists).get
    val (status, output) = freshJvm(s"-D${NativeLibrary.PATH_PROPERTY}=$foreign")
    assert(status == 0, output)
    contains(output, "available=false", s"$foreign", "is not a library of delta-rlc")
  }

  test("a directory for temporary files that does not exist") {
    contains(failure(loader(Map(NativeLibrary.TMPDIR_PROPERTY -> s"$dir/none"))),
      s"no directory at $dir/none (-D${NativeLibrary.TMPDIR_PROPERTY})")
    contains(failure(loader(Map(NativeLibrary.TMPDIR_PROPERTY -> "", "java.io.tmpdir" -> s"$dir/none"))),
      s"no directory at $dir/none (-Djava.io.tmpdir)", s"-D${NativeLibrary.TMPDIR_PROPERTY}")
  }

  test("a directory for temporary files that cannot be written") {
    // Root may write anywhere but here.
    val readOnly = if (System.getProperty("user.name") == "root") "/proc/self" else {
      val d = dir.resolve("read-only")
      Files.createDirectory(d, PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("r-x------")))
      d.toString
    }
    contains(failure(loader(Map(NativeLibrary.TMPDIR_PROPERTY -> readOnly))),
      "cannot copy ", s"to a new directory below $readOnly", NativeLibrary.TMPDIR_PROPERTY)
  }

  test("each class loader gets a copy of its own, as with --jars in several sessions of one JVM") {
    val urls = System.getProperty("java.class.path").split(File.pathSeparator).map(new File(_).toURI.toURL)
    val described = Seq.fill(2) {
      val loader = new java.net.URLClassLoader(urls, ClassLoader.getPlatformClassLoader)
      val library = Class.forName("io.github.deltarlc.jni.NativeLibrary", true, loader)
      assert(library ne classOf[NativeLibrary])
      library.getMethod("describe").invoke(null).asInstanceOf[String]
    }
    described.foreach(contains(_, " loaded from "))
  }

  test("the copy is for its owner only") {
    // Seen through the resource: the copy is made while it is being read.
    var seen = Seq.empty[String]
    val url = new URL(null, "probe:x", new java.net.URLStreamHandler {
      override def openConnection(u: URL): java.net.URLConnection = new java.net.URLConnection(u) {
        override def connect(): Unit = ()
        override def getInputStream: java.io.InputStream = {
          seen = Files.list(dir).iterator.asScala.filter(Files.isDirectory(_))
            .map(p => PosixFilePermissions.toString(Files.getPosixFilePermissions(p))).toSeq
          jar(resource).openStream()
        }
      }
    })
    assert(loader(resources = name => if (name == resource) url else jar(name)).load().cause == null)
    assert(seen == Seq("rwx------"))
  }

  test("what the system says is explained where it is known") {
    val executable = file("x.so", Array.emptyByteArray)
    Files.setPosixFilePermissions(executable, PosixFilePermissions.fromString("rwx------"))
    def explained(message: String): String = NativeLoader.explain(new UnsatisfiedLinkError(message), executable)
    contains(explained("/x.so: /lib64/libc.so.6: version `GLIBC_2.34' not found (required by /x.so)"),
      "needs glibc 2.34 or newer", "the release, which needs 2.17")
    contains(explained("/x.so: failed to map segment from shared object"), s"$dir seems to be mounted noexec",
      s"-D${NativeLibrary.TMPDIR_PROPERTY}")
    contains(explained("Native Library /x.so already loaded in another classloader"), "give each its own copy")
    contains(explained("Error loading shared library ld-linux-x86-64.so.2: No such file or directory"),
      "another C library")
    assert(explained("something else") == "something else")
    Files.setPosixFilePermissions(executable, PosixFilePermissions.fromString("rw-------"))
    contains(explained("cannot open"), "may not be executed")
  }

  test("a failure of any other kind is a cause, too") {
    val message = failure(loader(resources = _ => throw new StackOverflowError("deep")))
    contains(message, "unexpected failure: java.lang.StackOverflowError: deep")
  }

  test("without a library a JVM goes on, and every call says why it cannot be made") {
    val (status, output) = freshJvm(s"-D${NativeLibrary.PATH_PROPERTY}=/nowhere/x.so")
    assert(status == 0, output)
    contains(output, "available=false", "no file at /nowhere/x.so", "resolve: NATIVE_UNAVAILABLE: no file at /nowhere/x.so",
      "again: NATIVE_UNAVAILABLE: no file at /nowhere/x.so")
  }

  test("a fresh JVM loads it from the class path, without a message from -Xcheck:jni") {
    // With what docs/compatibility.md says to add on newer versions of Java, which warn otherwise.
    val access =
      if (Runtime.version.feature >= 24) Seq("--enable-native-access=ALL-UNNAMED") else Nil
    val (status, output) = freshJvm("-Xcheck:jni" +: access: _*)
    assert(status == 0, output)
    contains(output, "available=true", "loaded from ")
    assert(!output.contains("WARNING") && !output.contains("FATAL"), output)
  }

  /** A folder as a jar of version 0.0.9 would be, `withClasses` or with its resources alone. */
  private def otherVersion(withClasses: Boolean): Path = {
    val other = dir.resolve("other")
    if (withClasses) {
      val classes = new File(classOf[NativeBridge].getProtectionDomain.getCodeSource.getLocation.toURI).toPath
      TableFiles.copy(classes, other)
    }
    val properties = jar(BuildInfo.RESOURCE).openStream().readAllBytes()
    val text = new String(properties, StandardCharsets.ISO_8859_1)
    def put(name: String, bytes: Array[Byte]): Unit = {
      val file = other.resolve(name.drop(1))
      Files.createDirectories(file.getParent)
      Files.write(file, bytes)
    }
    put(BuildInfo.RESOURCE, text.replace(s"version=$version", "version=0.0.9").getBytes(StandardCharsets.ISO_8859_1))
    if (withClasses) {
      for (name <- Seq(resource, digest)) put(name.replace(version, "0.0.9"), jar(name).openStream().readAllBytes())
    }
    other
  }

  test("two jars of different versions on one class path: the first one's library is asked for, and checked") {
    val path = System.getProperty("java.class.path")
    val other = otherVersion(withClasses = true)
    val (_, behind) = freshJvmOn(s"$path${File.pathSeparator}$other")
    contains(behind, "available=true", s"delta-rlc $version (")
    val (status, before) = freshJvmOn(s"$other${File.pathSeparator}$path")
    assert(status == 0, before)
    contains(before, "available=false", s" is version $version, and this jar is 0.0.9")
  }

  test("classes of one version and resources of another: nothing is loaded, and it says which version is missing") {
    val (status, output) = freshJvmOn(
      s"${otherVersion(withClasses = false)}${File.pathSeparator}${System.getProperty("java.class.path")}")
    assert(status == 0, output)
    contains(output, "available=false", s"no ${resource.drop(1).replace(version, "0.0.9")} in ")
  }

  test("a directory for temporary files that is mounted noexec: it says so, and how to move it") {
    // Needs a mount, which needs a namespace of its own, which not every container grants.
    val script = s"mount -t tmpfs -o noexec none $dir && exec \"$$@\""
    def isolated(command: String*): Seq[String] = Seq("unshare", "-rm", "sh", "-c", script, "sh") ++ command
    val granted = scala.util.Try(new ProcessBuilder(isolated("true"): _*).start().waitFor() == 0)
    assume(granted.getOrElse(false), "unshare -rm is not permitted here")
    assume(!java.lang.Boolean.getBoolean("delta.rlc.test.emulated"), "to an emulator all code is data")
    val (status, output) = freshJvmOn(System.getProperty("java.class.path"), isolated())
    assert(status == 0, output)
    contains(output, "available=false", "noexec", s"-D${NativeLibrary.TMPDIR_PROPERTY}")
  }

  /** Runs [[LoadProbe]] in a JVM of its own. */
  private def freshJvm(options: String*): (Int, String) =
    freshJvmOn(System.getProperty("java.class.path"), options = options)

  private def freshJvmOn(
      classPath: String, prefix: Seq[String] = Nil, options: Seq[String] = Nil): (Int, String) = {
    // Under an emulator it is not the file below java.home that can be started.
    val java = System.getProperty("delta.rlc.test.java",
      new File(System.getProperty("java.home"), "bin/java").getPath)
    val command = (prefix :+ java) ++ options ++ Seq(
      "-cp", classPath, s"-Djava.io.tmpdir=$dir", "io.github.deltarlc.jni.LoadProbe")
    val process = new ProcessBuilder(command: _*).redirectErrorStream(true).start()
    val output = new String(process.getInputStream.readAllBytes(), StandardCharsets.UTF_8)
    assert(process.waitFor(2, TimeUnit.MINUTES), "the probe hangs")
    (process.exitValue, output)
  }
}

/** What a session does with the library, in a JVM of its own. */
object LoadProbe {
  def main(args: Array[String]): Unit = {
    println(s"available=${NativeLibrary.isAvailable}")
    println(NativeLibrary.describe)
    val request = new MergeRequest(0)
    for (label <- Seq("resolve", "again")) {
      try println(s"$label: ${NativeBridge.resolve(request).fileCount} files")
      catch { case e: NativeException => println(s"$label: ${e.getMessage}") }
    }
    request.close()
  }
}
