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

import java.lang.management.ManagementFactory;

/**
 * A driver whose JIT is still cold: the first pass of a JVM, over 1,000 files with 50 deletes each.
 * Prints the nanoseconds of CPU time for each of the files 101 to 1,000.
 *
 * <p>The files are made by this JVM too, but by writing alone; what is measured runs for the first time.
 */
public final class ColdStart {
  private ColdStart() {}

  /** Takes {@code delta}, {@code java} or {@code native}. */
  public static void main(String[] args) {
    Shape.Input[] files = Shape.MANY_FILES.inputs();
    Shape.Input[] first = java.util.Arrays.copyOfRange(files, 0, 100);
    Shape.Input[] rest = java.util.Arrays.copyOfRange(files, 100, files.length);
    NativeMerge.Spans firstSpans = new NativeMerge.Spans(first);
    NativeMerge.Spans restSpans = new NativeMerge.Spans(rest);
    long sum = run(args[0], first, firstSpans);
    long from = cpu();
    sum += run(args[0], rest, restSpans);
    long spent = cpu() - from;
    System.out.println(spent / rest.length + " " + sum);
  }

  private static long cpu() {
    // This thread's: the compiler's threads would blur it.
    return ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
  }

  private static long run(String how, Shape.Input[] files, NativeMerge.Spans spans) {
    long bytes = 0;
    switch (how) {
      case "native":
        for (byte[] merged : NativeMerge.merge(spans, files)) {
          bytes += merged.length;
        }
        return bytes;
      case "java":
        JavaStreamingMerge java = new JavaStreamingMerge();
        for (Shape.Input f : files) {
          bytes += java.merge(f.base, f.baseRows, f.current, f.currentRows, f.winner, f.winnerRows).length;
        }
        return bytes;
      case "delta":
        for (Shape.Input f : files) {
          bytes += DeltaMerge.merge(f).length;
        }
        return bytes;
      default:
        throw new IllegalArgumentException(how);
    }
  }
}
