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
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.openjdk.jmh.profile.GCProfiler;
import org.openjdk.jmh.results.IterationResult;
import org.openjdk.jmh.results.Result;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.format.OutputFormatFactory;
import org.openjdk.jmh.runner.options.Options;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.VerboseMode;

/**
 * Runs every shape with every way in one run, then the cold case, and prints the ratios.
 *
 * <p>Where other machines share the processor, everything takes up to twice as long for minutes. So the
 * ways of a shape run right after one another, all of it is done in {@link #ROUNDS} rounds that lie
 * minutes apart, and of each the iteration that was disturbed least counts.
 *
 * <p>Arguments: a directory for the results, then {@code quick} for one round, and names of shapes, or
 * {@code COLD}, for those alone: the others stay as an earlier run left them, so that a long run can be
 * made in pieces. Writes {@code jmh-1.txt} and so on (JMH's own output of a round), {@code jmh.tsv} (the
 * numbers) and {@code jmh.md}, the table that it prints.
 */
public final class BenchMain {
  private static final List<String> WAYS = List.of("delta", "java", "nativeCopied", "nativeInPlace");
  private static final String COLD = "COLD";
  private static final String ALLOCATED = "gc.alloc.rate.norm";
  private static final int ROUNDS = 2;
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
    boolean cold = all || rest.remove(COLD);

    Path numbersFile = dir.resolve("jmh.tsv");
    Numbers numbers = all ? new Numbers() : Numbers.read(numbersFile);
    String machine = machine();
    List<Shape> shapes = (all ? Arrays.stream(Shape.values()) : rest.stream().map(Shape::valueOf)).toList();
    Iterations iterations = new Iterations();
    for (int round = 1; round <= (quick ? 1 : ROUNDS) && !shapes.isEmpty(); round++) {
      Path output = dir.resolve("jmh-" + round + ".txt");
      System.err.println("JMH, round " + round + ": its own output goes to " + output);
      try (PrintStream log = new PrintStream(output.toFile(), StandardCharsets.UTF_8)) {
        for (Shape shape : shapes) {
          iterations.add(run(shape, log));
        }
      }
    }
    iterations.summarize(numbers);
    if (cold) {
      cold(numbers);
    }
    numbers.write(numbersFile);
    String report = machine + warmTable(numbers) + coldTable(numbers);
    Files.writeString(dir.resolve("jmh.md"), report);
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    out.print(report);
    out.println("written to " + dir.resolve("jmh.md"));
  }

  /**
   * Of each row (a shape, or {@link #COLD}) and each way: the time of the fastest iteration, how much
   * more the median is, and bytes allocated.
   */
  private static final class Numbers {
    private final Map<String, Map<String, double[]>> rows = new LinkedHashMap<>();

    static Numbers read(Path file) throws IOException {
      Numbers numbers = new Numbers();
      for (String line : Files.exists(file) ? Files.readAllLines(file) : List.<String>of()) {
        String[] cells = line.split("\t");
        numbers.put(cells[0], cells[1], Arrays.stream(cells).skip(2).mapToDouble(Double::parseDouble).toArray());
      }
      return numbers;
    }

    void write(Path file) throws IOException {
      StringBuilder b = new StringBuilder();
      rows.forEach((row, ways) -> ways.forEach((way, values) -> {
        b.append(row).append('\t').append(way);
        for (double value : values) {
          b.append('\t').append(value);
        }
        b.append('\n');
      }));
      Files.writeString(file, b);
    }

    void put(String row, String way, double... values) {
      rows.computeIfAbsent(row, r -> new LinkedHashMap<>()).put(way, values);
    }

    Map<String, double[]> get(String row) {
      return rows.get(row);
    }
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

  private static List<RunResult> run(Shape shape, PrintStream log) throws RunnerException {
    Options options = new OptionsBuilder()
        .include(ResolveBenchmark.class.getSimpleName())
        .param("shape", shape.name())
        .addProfiler(GCProfiler.class)
        .addProfiler(CpuProfiler.class)
        .build();
    return List.copyOf(new Runner(options, OutputFormatFactory.createFormatInstance(log, VerboseMode.NORMAL)).run());
  }

  /** What was measured in all rounds. */
  private static final class Iterations {
    private final Map<Shape, Map<String, List<IterationResult>>> all = new LinkedHashMap<>();

    void add(List<RunResult> results) {
      for (RunResult r : results) {
        Shape shape = Shape.valueOf(r.getParams().getParam("shape"));
        String way = r.getParams().getBenchmark().replaceAll(".*\\.", "");
        Stream<IterationResult> measured =
            r.getBenchmarkResults().stream().flatMap(fork -> fork.getIterationResults().stream());
        all.computeIfAbsent(shape, s -> new LinkedHashMap<>())
            .computeIfAbsent(way, w -> new ArrayList<>()).addAll(measured.toList());
      }
    }

    void summarize(Numbers numbers) {
      all.forEach((shape, ways) -> ways.forEach((way, iterations) -> {
        int files = shape == Shape.MANY_FILES ? 1000 : 1;
        List<Double> times = sorted(iterations, CpuProfiler.LABEL);
        double least = times.get(0);
        double more = times.get(times.size() / 2) - least;
        numbers.put(shape.name(), way, least / files, more / files, sorted(iterations, ALLOCATED).get(0) / files);
      }));
    }

    private static List<Double> sorted(List<IterationResult> iterations, String label) {
      List<Double> scores = new ArrayList<>();
      for (IterationResult iteration : iterations) {
        scores.add(iteration.getSecondaryResults().entrySet().stream().filter(e -> e.getKey().endsWith(label))
            .map(e -> (Result<?>) e.getValue()).findFirst().orElseThrow().getScore());
      }
      Collections.sort(scores);
      return scores;
    }
  }

  private static String warmTable(Numbers numbers) {
    List<Shape> shapes = Arrays.stream(Shape.values()).filter(s -> numbers.get(s.name()) != null).toList();
    if (shapes.isEmpty()) {
      return "";
    }
    StringBuilder b = new StringBuilder();
    b.append("CPU time of one file's resolution, warm, garbage collection included: the fastest iteration, and how much"
        + " longer the median took. Ratios are Delta's time divided by the other's.\n\n");
    b.append("| shape | Delta | plain Java | ratio | native | ratio | native in place | ratio | goal |\n");
    b.append("|---|---|---|---|---|---|---|---|---|\n");
    double[] logs = new double[WAYS.size()];
    for (Shape shape : shapes) {
      Map<String, double[]> by = numbers.get(shape.name());
      double delta = by.get("delta")[0];
      b.append("| ").append(shape.title).append(" | ").append(time(by.get("delta")));
      for (int i = 1; i < WAYS.size(); i++) {
        double ratio = delta / by.get(WAYS.get(i))[0];
        logs[i] += Math.log(ratio);
        b.append(" | ").append(time(by.get(WAYS.get(i)))).append(" | ").append(ratio(ratio));
      }
      b.append(" | ").append(String.format(Locale.ROOT, "%.0f", shape.goal)).append(" |\n");
    }
    b.append("| geometric mean | ");
    for (int i = 1; i < WAYS.size(); i++) {
      b.append("| | ").append(ratio(Math.exp(logs[i] / shapes.size()))).append(' ');
    }
    b.append("| |\n\nBytes allocated on the Java heap for one file.\n\n");
    b.append("| shape | Delta | plain Java | native | native in place |\n|---|---|---|---|---|\n");
    for (Shape shape : shapes) {
      b.append("| ").append(shape.title);
      for (String way : WAYS) {
        b.append(" | ").append(String.format(Locale.ROOT, "%,.0f", numbers.get(shape.name()).get(way)[2]));
      }
      b.append(" |\n");
    }
    return b.append('\n').toString();
  }

  private static String time(double[] value) {
    double more = 100 * value[1] / value[0];
    String unit = value[0] < 10_000 ? String.format(Locale.ROOT, "%,.0f ns", value[0])
        : value[0] < 10_000_000 ? String.format(Locale.ROOT, "%,.1f us", value[0] / 1000)
        : String.format(Locale.ROOT, "%,.1f ms", value[0] / 1_000_000);
    return unit + String.format(Locale.ROOT, " +%.0f%%", more);
  }

  private static String ratio(double ratio) {
    return String.format(Locale.ROOT, ratio < 10 ? "%.1f" : "%,.0f", ratio);
  }

  // ---- cold ---------------------------------------------------------------------------------

  private static void cold(Numbers numbers) throws IOException, InterruptedException {
    for (String way : List.of("delta", "java", "native")) {
      long[] runs = new long[COLD_RUNS];
      for (int i = 0; i < COLD_RUNS; i++) {
        runs[i] = coldRun(way);
      }
      Arrays.sort(runs);
      numbers.put(COLD, way, runs[COLD_RUNS / 2]);
    }
  }

  private static String coldTable(Numbers numbers) {
    Map<String, double[]> by = numbers.get(COLD);
    if (by == null) {
      return "";
    }
    double delta = by.get("delta")[0];
    double java = by.get("java")[0];
    double ours = by.get("native")[0];
    return String.format(Locale.ROOT, "Files 101 to 1,000 of the first pass of a JVM, 50 deletes each: CPU time of a "
            + "file, median of %d JVMs.%n%n| Delta | plain Java | ratio | native | ratio | goal |%n"
            + "|---|---|---|---|---|---|%n| %,.0f ns | %,.0f ns | %.1f | %,.0f ns | %.1f | 45 |%n%n",
        COLD_RUNS, delta, java, delta / java, ours, delta / ours);
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
