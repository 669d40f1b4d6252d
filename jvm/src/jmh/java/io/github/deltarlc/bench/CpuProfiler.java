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

import java.io.File;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.util.Collection;
import java.util.List;
import org.openjdk.jmh.infra.BenchmarkParams;
import org.openjdk.jmh.infra.IterationParams;
import org.openjdk.jmh.profile.InternalProfiler;
import org.openjdk.jmh.results.AggregationPolicy;
import org.openjdk.jmh.results.IterationResult;
import org.openjdk.jmh.results.Result;
import org.openjdk.jmh.results.ScalarResult;

/**
 * CPU time of the whole JVM for each operation: with the garbage collection that an operation causes,
 * and without the time in which a busy machine ran something else.
 */
public final class CpuProfiler implements InternalProfiler {
  static final String LABEL = "cpu.norm";

  private long start;

  @Override
  public String getDescription() {
    return "CPU time of the process for each operation";
  }

  @Override
  public void beforeIteration(BenchmarkParams benchmark, IterationParams iteration) {
    start = cpu();
  }

  @Override
  public Collection<? extends Result> afterIteration(
      BenchmarkParams benchmark, IterationParams iteration, IterationResult result) {
    long ops = result.getMetadata().getAllOps();
    return List.of(new ScalarResult(LABEL, (double) (cpu() - start) / Math.max(1, ops), "ns/op", AggregationPolicy.AVG));
  }

  /**
   * Nanoseconds of all threads there are. The JVM's own number counts hundredths of a second, 4 % of an
   * iteration, so it is only taken where the kernel does not tell.
   */
  private static long cpu() {
    long sum = 0;
    File[] threads = new File("/proc/self/task").listFiles();
    for (File thread : threads == null ? new File[0] : threads) {
      try {
        sum += Long.parseLong(Files.readString(thread.toPath().resolve("schedstat")).split(" ")[0]);
      } catch (IOException e) {
        // It has just ended, or there is no such file.
      }
    }
    return sum != 0 ? sum
        : ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean())
            .getProcessCpuTime();
  }
}
