import java.io.File;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import java.util.stream.Stream;

import sbt.internal.inc.FileAnalysisStore;
import sbt.internal.inc.IncrementalCompilerImpl;
import sbt.internal.inc.Locate;
import sbt.internal.inc.PlainVirtualFileConverter;
import sbt.internal.inc.ScalaInstance;
import sbt.internal.inc.ZincUtil;
import xsbti.CompileFailed;
import xsbti.Logger;
import xsbti.Problem;
import xsbti.Severity;
import xsbti.T2;
import xsbti.VirtualFile;
import xsbti.compile.*;

/**
 * A command line over Zinc, for a Gradle too old to know Scala 2.13.
 *
 * <p>Arguments are one file: {@code key=value} lines, with keys {@code scalaVersion},
 * {@code scalaJar} (many), {@code bridge}, {@code classpath} (many), {@code source} (many),
 * {@code out}, {@code analysis}, {@code scalacOption} (many), {@code upstream} (many:
 * {@code DIRECTORY|ANALYSIS} of a class directory that Zinc itself compiled, so that a change
 * there recompiles only what uses the changed members). Exit status 0, or 1 when the sources do
 * not compile.
 */
public final class ZincMain {
  private static final Logger LOG = new Logger() {
    public void error(Supplier<String> m) { System.err.println("[error] " + m.get()); }
    public void warn(Supplier<String> m) { System.err.println("[warn] " + m.get()); }
    public void info(Supplier<String> m) { System.out.println(m.get()); }
    public void debug(Supplier<String> m) { }
    public void trace(Supplier<Throwable> t) { }
  };

  public static void main(String[] args) throws Exception {
    Map<String, List<String>> in = new LinkedHashMap<>();
    for (String line : Files.readAllLines(Paths.get(args[0]))) {
      int eq = line.indexOf('=');
      if (eq > 0) {
        in.computeIfAbsent(line.substring(0, eq), k -> new ArrayList<>()).add(line.substring(eq + 1));
      }
    }
    System.exit(run(in) ? 0 : 1);
  }

  private static boolean run(Map<String, List<String>> in) throws Exception {
    PlainVirtualFileConverter conv = new PlainVirtualFileConverter();
    File[] scalaJars = many(in, "scalaJar").stream().map(File::new).toArray(File[]::new);
    File[] library = java.util.Arrays.stream(scalaJars)
        .filter(f -> f.getName().startsWith("scala-library")).toArray(File[]::new);
    ClassLoader libLoader = new URLClassLoader(urls(library), ClassLoader.getPlatformClassLoader());
    // xsbti (the compiler interface) must be the same classes on both sides of the bridge.
    ClassLoader top = new ClassLoader(libLoader) {
      @Override protected Class<?> findClass(String name) throws ClassNotFoundException {
        if (name.startsWith("xsbti.")) return ZincMain.class.getClassLoader().loadClass(name);
        throw new ClassNotFoundException(name);
      }
    };
    ClassLoader loader = new URLClassLoader(urls(scalaJars), top);
    ScalaInstance si = new ScalaInstance(one(in, "scalaVersion"), loader, loader, libLoader,
        library, scalaJars, scalaJars, scala.Option.empty());
    ScalaCompiler scalac = ZincUtil.scalaCompiler(si, new File(one(in, "bridge")));
    Compilers compilers = ZincUtil.compilers(si, ClasspathOptionsUtil.boot(), scala.Option.empty(), scalac);

    Path out = Paths.get(one(in, "out"));
    Files.createDirectories(out);
    // The output itself is on the class path: what is not recompiled is found there.
    VirtualFile[] cp = Stream.concat(
        Stream.of(out.toString()), many(in, "classpath").stream())
        .filter(p -> new File(p).exists())
        .map(p -> conv.toVirtualFile(Paths.get(p))).toArray(VirtualFile[]::new);
    VirtualFile[] src = many(in, "source").stream()
        .map(p -> conv.toVirtualFile(Paths.get(p))).toArray(VirtualFile[]::new);
    File cache = new File(one(in, "analysis"));
    AnalysisStore store = FileAnalysisStore.binary(cache);
    Optional<AnalysisContents> old = store.get();
    PreviousResult previous = PreviousResult.of(
        old.map(AnalysisContents::getAnalysis), old.map(AnalysisContents::getMiniSetup));

    Map<String, CompileAnalysis> upstream = new LinkedHashMap<>();
    for (String pair : many(in, "upstream")) {
      int bar = pair.indexOf('|');
      FileAnalysisStore.binary(new File(pair.substring(bar + 1))).get().ifPresent(a ->
          upstream.put(conv.toVirtualFile(Paths.get(pair.substring(0, bar))).id(), a.getAnalysis()));
    }
    PerClasspathEntryLookup lookup = new PerClasspathEntryLookup() {
      public Optional<CompileAnalysis> analysis(VirtualFile entry) {
        return Optional.ofNullable(upstream.get(entry.id()));
      }
      public DefinesClass definesClass(VirtualFile entry) { return Locate.definesClass(entry); }
    };
    Reporter0 reporter = new Reporter0();
    Setup setup = Setup.of(lookup, false, cache.toPath(), CompilerCache.fresh(), IncOptions.of(),
        reporter, Optional.empty(), new T2[0]);
    CompileOptions options = CompileOptions.of(cp, src, out,
        many(in, "scalacOption").toArray(new String[0]), new String[0], 100, p -> p,
        CompileOrder.Mixed, Optional.empty(), Optional.of(conv), Optional.empty(), Optional.empty());
    try {
      CompileResult result = new IncrementalCompilerImpl()
          .compile(Inputs.of(compilers, options, setup, previous), LOG);
      if (result.hasModified()) {
        store.set(AnalysisContents.create(result.analysis(), result.setup()));
      } else {
        System.out.println("nothing to recompile");
      }
      return true;
    } catch (CompileFailed e) {
      return false;
    }
  }

  private static List<String> many(Map<String, List<String>> in, String key) {
    return in.getOrDefault(key, List.of());
  }

  private static String one(Map<String, List<String>> in, String key) {
    List<String> v = many(in, key);
    if (v.size() != 1) throw new IllegalArgumentException(key + ": want one value, got " + v);
    return v.get(0);
  }

  private static URL[] urls(File[] files) throws Exception {
    URL[] u = new URL[files.length];
    for (int i = 0; i < files.length; i++) u[i] = files[i].toURI().toURL();
    return u;
  }

  private static final class Reporter0 implements xsbti.Reporter {
    private final List<Problem> problems = new ArrayList<>();
    public void reset() { problems.clear(); }
    public boolean hasErrors() { return problems.stream().anyMatch(p -> p.severity() == Severity.Error); }
    public boolean hasWarnings() { return problems.stream().anyMatch(p -> p.severity() == Severity.Warn); }
    public void printSummary() { }
    public Problem[] problems() { return problems.toArray(new Problem[0]); }
    public void log(Problem p) {
      problems.add(p);
      String where = p.position().sourcePath().orElse("?") + ":" + p.position().line().map(String::valueOf).orElse("?");
      System.err.println(where + ": " + p.severity().toString().toLowerCase(java.util.Locale.ROOT) + ": " + p.message());
    }
    public void comment(xsbti.Position pos, String msg) { }
  }
}
