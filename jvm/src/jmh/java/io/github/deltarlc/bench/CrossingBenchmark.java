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
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;
import org.openjdk.jmh.infra.Blackhole;

/**
 * What a pass costs beside its work: how long does a request about no file take, and how long one about a
 * file of which each side deleted one row? {@code gradle jmh -PjmhArgs=CrossingBenchmark}
 */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Fork(1)
@Warmup(iterations = 4, time = 1)
@Measurement(iterations = 5, time = 1)
public class CrossingBenchmark {
  private final MergeRequest nothing = new MergeRequest(0);
  private final MergeRequest oneRow = NativeMerge.request(new NativeMerge.Spans(Shape.ONE_ROW), Shape.ONE_ROW);

  /** Gives the buffers back. */
  @TearDown
  public void tearDown() {
    nothing.close();
    oneRow.close();
  }

  /** The call, a buffer for the answer and its header. */
  @Benchmark
  public void nothing(Blackhole hole) {
    hole.consume(NativeBridge.resolve(nothing));
  }

  /** Three arrays as well, and the fixed part of a merge. */
  @Benchmark
  public void oneRow(Blackhole hole) {
    MergeResponse response = NativeBridge.resolve(oneRow);
    hole.consume(response.cardinality(0));
  }
}
