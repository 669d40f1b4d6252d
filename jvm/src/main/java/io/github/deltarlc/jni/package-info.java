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

/**
 * The native layer: the loader, one call for a whole pass, and the classes which write its request
 * and read its response.
 *
 * <p>Needs only the JDK and knows nothing of Spark or Delta. The layout of the two is in
 * {@link io.github.deltarlc.jni.MergeRequest} and {@link io.github.deltarlc.jni.MergeResponse}; every
 * failure is a {@link io.github.deltarlc.jni.NativeException} with a stable code.
 */
package io.github.deltarlc.jni;
