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

package org.apache.spark.sql.delta.rlc.histories

import org.apache.spark.sql.delta.actions.{AddFile, FileAction, RemoveFile}
import org.apache.spark.sql.delta.deletionvectors.{RoaringBitmapArray, RoaringBitmapArrayFormat}
import org.apache.spark.sql.delta.rlc.ResolutionPolicy

/** The product with one safeguard taken out, to see that the checker finds it missing. */
final case class Mutant(name: String, what: String, policy: ResolutionPolicy)

object Mutants {

  private def without(rules: String*): ResolutionPolicy = new ResolutionPolicy {
    override def enforces(ruleId: String): Boolean = !rules.contains(ruleId)
  }

  val all: Vector[Mutant] = Vector(
    Mutant("G8-merge-gate", "a MERGE with a conditional MATCHED clause may insert", without("G8")),
    Mutant("G6-subquery-gate", "subqueries in SET and in MERGE actions", without("G6")),
    Mutant("G7G9-self-read-gate", "MERGE sources that read the target", without("G7", "G9")),
    Mutant("P4-base-in-winner", "the union of two vectors, whatever the loser read",
      new ResolutionPolicy {
        override def enforces(ruleId: String): Boolean = ruleId != "P4"
        override def mergeRegardless(
            base: Array[Byte], current: Array[Byte], winner: Array[Byte]) = {
          val union = RoaringBitmapArray.readFrom(current)
          if (winner.nonEmpty) union.merge(RoaringBitmapArray.readFrom(winner))
          Some(union.serializeAsByteArray(RoaringBitmapArrayFormat.Portable) -> union.cardinality)
        }
      }),
    Mutant("P1-chain", "the tombstone names the vector that the loser read",
      new ResolutionPolicy {
        override def requiresLinks: Boolean = false
        override def rebasedTombstone(own: RemoveFile, live: AddFile): RemoveFile = own
      }),
    Mutant("O-winner-based-addfile", "the loser's own entry with the merged vector",
      new ResolutionPolicy {
        override def rebasedEntry(own: AddFile, live: AddFile): AddFile = own
      }),
    Mutant("append-check-for-images", "new files of the winners are not shown to the append check",
      new ResolutionPolicy {
        override def hides(action: FileAction, resolved: String => Boolean): Boolean =
          resolved(action.path) || action.isInstanceOf[AddFile]
      }),
    Mutant("G12-append-then-delete", "WriteSerializable: a winner that saw a skipped append",
      without("G12")))
}
