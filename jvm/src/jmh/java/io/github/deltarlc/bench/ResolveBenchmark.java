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

import io.github.deltarlc.jni.MergeRequest;
import io.github.deltarlc.jni.MergeResponse;
import io.github.deltarlc.jni.NativeBridge;
import io.github.deltarlc.jni.Verdict;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.delta.deletionvectors.RoaringBitmapArray;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;
import org.openjdk.jmh.infra.Blackhole;

/**
 * The whole resolution of a pass: three serialized deletion vectors a file in, a verdict and the merged
 * bytes out. How long does it take, and how much does it allocate, against Delta's own class and
 * against the same algorithm in plain Java?
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(value = 1, jvmArgsAppend = {"-Xms2g", "-Xmx2g"})
@Warmup(iterations = 6, time = 500, timeUnit = TimeUnit.MILLISECONDS)
@Measurement(iterations = 10, time = 250, timeUnit = TimeUnit.MILLISECONDS)
public class ResolveBenchmark {
  @Param
  public Shape shape;

  private Shape.Input[] files;
  private final JavaStreamingMerge java = new JavaStreamingMerge();
  private NativeMerge.Spans spans;
  private MergeRequest filled;

  /** Makes the files, and checks that all ways give one result. */
  @Setup
  public void setup() {
    files = shape.inputs();
    spans = new NativeMerge.Spans(files);
    filled = NativeMerge.request(spans, files);
    byte[][] ours = NativeMerge.merge(spans, files);
    for (int i = 0; i < files.length; i++) {
      byte[] delta = DeltaMerge.merge(files[i]);
      byte[] streamed = javaMerge(files[i]);
      if ((delta == null) != shape.isConflict()) {
        throw new AssertionError("the shape is not what it says");
      }
      same(delta, ours[i], "native");
      same(delta, streamed, "Java");
    }
  }

  private static void same(byte[] want, byte[] got, String who) {
    if (want == null ? got != null : got == null
        || !RoaringBitmapArray.readFrom(want).equals(RoaringBitmapArray.readFrom(got))) {
      throw new AssertionError(who + " gives another result than Delta");
    }
  }

  @TearDown
  public void tearDown() {
    filled.close();
  }

  private byte[] javaMerge(Shape.Input f) {
    return java.merge(f.base, f.baseRows, f.current, f.currentRows, f.winner, f.winnerRows);
  }

  /** Delta's RoaringBitmapArray. */
  @Benchmark
  public void delta(Blackhole hole) {
    for (Shape.Input f : files) {
      hole.consume(DeltaMerge.merge(f));
    }
  }

  /** The streaming algorithm in plain Java. */
  @Benchmark
  public void java(Blackhole hole) {
    for (Shape.Input f : files) {
      hole.consume(javaMerge(f));
    }
  }

  /** Ours from the arrays that were read to arrays that can be written: the request and the copy included. */
  @Benchmark
  public void nativeCopied(Blackhole hole) {
    hole.consume(NativeMerge.merge(spans, files));
  }

  /** Ours where the request is at hand and the bytes are written from the response. */
  @Benchmark
  public void nativeInPlace(Blackhole hole) {
    MergeResponse response = NativeBridge.resolve(filled);
    for (int i = 0; i < files.length; i++) {
      if (response.verdict(i) == Verdict.MERGED) {
        hole.consume(response.cardinality(i));
      }
    }
  }
}
