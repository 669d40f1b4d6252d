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

import io.github.deltarlc.jni.NativeLibrary;
import java.io.File;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.openjdk.jmh.profile.GCProfiler;
import org.openjdk.jmh.results.Result;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.results.format.ResultFormatType;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.ChainedOptionsBuilder;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;

/**
 * Runs every shape with every way in one run, then the cold case, and prints the ratios.
 *
 * <p>Arguments: a directory for the results, then {@code quick} for short iterations, and names of
 * shapes for those alone. Writes {@code jmh.json}, {@code jmh.txt} (JMH's own output) and
 * {@code jmh.md}, the table that it prints.
 */
public final class BenchMain {
  private static final List<String> WAYS = List.of("delta", "java", "nativeCopied", "nativeInPlace");
  private static final int COLD_RUNS = 5;

  private BenchMain() {}

  /** See the class. */
  public static void main(String[] args) throws RunnerException, IOException, InterruptedException {
    NativeLibrary.ensureAvailable();
    Path dir = Path.of(args[0]);
    Files.createDirectories(dir);
    List<String> rest = new ArrayList<>(Arrays.asList(args).subList(1, args.length));
    boolean quick = rest.remove("quick");
    boolean all = rest.isEmpty();
    boolean cold = all || rest.remove("COLD");

    StringBuilder report = new StringBuilder();
    report.append(machine());
    if (all || !rest.isEmpty()) {
      ChainedOptionsBuilder options = new OptionsBuilder()
          .include(ResolveBenchmark.class.getSimpleName())
          .addProfiler(GCProfiler.class)
          .addProfiler(CpuProfiler.class)
          .output(dir.resolve("jmh.txt").toString())
          .result(dir.resolve("jmh.json").toString())
          .resultFormat(ResultFormatType.JSON);
      if (!all) {
        options.param("shape", rest.toArray(new String[0]));
      }
      if (quick) {
        options.warmupIterations(2).warmupTime(TimeValue.milliseconds(500))
            .measurementIterations(3).measurementTime(TimeValue.milliseconds(500));
      }
      System.err.println("JMH is running; its own output goes to " + dir.resolve("jmh.txt"));
      report.append(warm(new Runner(options.build()).run()));
    }
    if (cold) {
      report.append(cold());
    }
    Files.writeString(dir.resolve("jmh.md"), report);
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    out.print(report);
    out.println("written to " + dir.resolve("jmh.md"));
  }

  private static String machine() throws IOException {
    String cpu = "unknown processor";
    Path info = Path.of("/proc/cpuinfo");
    if (Files.exists(info)) {
      cpu = Files.readAllLines(info).stream().filter(l -> l.startsWith("model name"))
          .map(l -> l.substring(l.indexOf(':') + 2)).findFirst().orElse(cpu);
    }
    String load = Files.exists(Path.of("/proc/loadavg"))
        ? Files.readString(Path.of("/proc/loadavg")).split(" ")[0] : "unknown";
    return String.format(Locale.ROOT, "%s, %d cores, load %s at the start; JDK %s; %s%n%n", cpu,
        Runtime.getRuntime().availableProcessors(), load, Runtime.version(),
        NativeLibrary.describe().replaceAll(" loaded from .*", ""));
  }

  // ---- warm ---------------------------------------------------------------------------------

  private static String warm(Collection<RunResult> results) {
    Map<Shape, Map<String, double[]>> found = new EnumMap<>(Shape.class);
    for (RunResult r : results) {
      Shape shape = Shape.valueOf(r.getParams().getParam("shape"));
      String way = r.getParams().getBenchmark().replaceAll(".*\\.", "");
      int files = shape == Shape.MANY_FILES ? 1000 : 1;
      Result cpu = secondary(r, CpuProfiler.LABEL);
      found.computeIfAbsent(shape, s -> new LinkedHashMap<>()).put(way, new double[] {
          cpu.getScore() / files, cpu.getScoreError() / files,
          secondary(r, "gc.alloc.rate.norm").getScore() / files});
    }
    StringBuilder b = new StringBuilder();
    b.append("CPU time of one file's resolution, warm, garbage collection included; ratios are Delta's time divided"
        + " by the other's.\n\n");
    b.append("| shape | Delta | plain Java | ratio | native | ratio | native in place | ratio | goal |\n");
    b.append("|---|---|---|---|---|---|---|---|---|\n");
    double[] logs = new double[WAYS.size()];
    for (Map.Entry<Shape, Map<String, double[]>> e : found.entrySet()) {
      Map<String, double[]> by = e.getValue();
      double delta = by.get("delta")[0];
      b.append("| ").append(e.getKey().title).append(" | ").append(time(by.get("delta")));
      for (int i = 1; i < WAYS.size(); i++) {
        double ratio = delta / by.get(WAYS.get(i))[0];
        logs[i] += Math.log(ratio);
        b.append(" | ").append(time(by.get(WAYS.get(i)))).append(" | ").append(ratio(ratio));
      }
      b.append(" | ").append(String.format(Locale.ROOT, "%.0f", e.getKey().goal)).append(" |\n");
    }
    b.append("| geometric mean | ");
    for (int i = 1; i < WAYS.size(); i++) {
      b.append("| | ").append(ratio(Math.exp(logs[i] / found.size()))).append(' ');
    }
    b.append("| |\n\nBytes allocated on the Java heap for one file.\n\n");
    b.append("| shape | Delta | plain Java | native | native in place |\n|---|---|---|---|---|\n");
    for (Map.Entry<Shape, Map<String, double[]>> e : found.entrySet()) {
      b.append("| ").append(e.getKey().title);
      for (String way : WAYS) {
        b.append(" | ").append(String.format(Locale.ROOT, "%,.0f", e.getValue().get(way)[2]));
      }
      b.append(" |\n");
    }
    return b.append('\n').toString();
  }

  private static Result secondary(RunResult r, String label) {
    return r.getSecondaryResults().entrySet().stream().filter(e -> e.getKey().endsWith(label))
        .map(Map.Entry::getValue).findFirst().orElseThrow();
  }

  private static String time(double[] value) {
    double error = 100 * value[1] / value[0];
    String unit = value[0] < 10_000 ? String.format(Locale.ROOT, "%,.0f ns", value[0])
        : value[0] < 10_000_000 ? String.format(Locale.ROOT, "%,.1f us", value[0] / 1000)
        : String.format(Locale.ROOT, "%,.1f ms", value[0] / 1_000_000);
    return unit + String.format(Locale.ROOT, " ±%.0f%%", error);
  }

  private static String ratio(double ratio) {
    return String.format(Locale.ROOT, ratio < 10 ? "%.1f" : "%,.0f", ratio);
  }

  // ---- cold ---------------------------------------------------------------------------------

  private static String cold() throws IOException, InterruptedException {
    Map<String, Long> medians = new LinkedHashMap<>();
    for (String way : List.of("delta", "java", "native")) {
      long[] runs = new long[COLD_RUNS];
      for (int i = 0; i < COLD_RUNS; i++) {
        runs[i] = coldRun(way);
      }
      Arrays.sort(runs);
      medians.put(way, runs[COLD_RUNS / 2]);
    }
    double delta = medians.get("delta");
    return String.format(Locale.ROOT, "Files 101 to 1,000 of the first pass of a JVM, 50 deletes each: CPU time of a "
            + "file, median of %d JVMs.%n%n| Delta | plain Java | ratio | native | ratio | goal |%n"
            + "|---|---|---|---|---|---|%n| %,.0f ns | %,d ns | %.1f | %,d ns | %.1f | 45 |%n%n",
        COLD_RUNS, delta, medians.get("java"), delta / medians.get("java"), medians.get("native"),
        delta / medians.get("native"));
  }

  private static long coldRun(String way) throws IOException, InterruptedException {
    Process p = new ProcessBuilder(new File(System.getProperty("java.home"), "bin/java").getPath(), "-cp",
        System.getProperty("java.class.path"), ColdStart.class.getName(), way)
        .redirectError(ProcessBuilder.Redirect.INHERIT).start();
    String out = new String(p.getInputStream().readAllBytes(), StandardCharsets.UTF_8).trim();
    if (p.waitFor() != 0) {
      throw new IllegalStateException("cold run of " + way + " failed: " + out);
    }
    return Long.parseLong(out.split(" ")[0]);
  }
}
