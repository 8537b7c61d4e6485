// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import org.apache.spark.sql.connector.read.streaming.Offset

/**
 * Epochs without records. A query that goes on where an earlier run has ended begins with one when there is nothing to
 * read: it restores the stores, which can then be asked, and the next record need not wait for the restore. Another one
 * closes windows whose time has come although no record comes.
 *
 * Spark cuts an epoch when the source's offsets differ from those of the last one, and compares them as text. So the same
 * offsets are written in another way: with a space behind them, or without.
 */
private final class EmptyEpochs {
  private var known = false
  private var last = ""

  /** Notes that there was no earlier run. */
  def begin(): Unit = known = true

  /** Notes that the last epoch has ended there. */
  def goOn(json: String): Unit = last = json

  /**
   * Returns the offset for Spark, where the next epoch would be from `start` to `end`.
   *
   * @param first whether the query may begin with an epoch without records
   * @param now whether one is wanted
   */
  def of(start: Offset, end: Offset, first: Boolean, now: Boolean): Offset = {
    val offset = (start, end) match {
      case (from: KafkaSourceOffset, until: KafkaSourceOffset) if from.partitionToOffsets == until.partitionToOffsets =>
        val wanted = now || (first && !known)
        Seq(until, new SpacedOffset(until)).find(_.json == last) match {
          case Some(same) if !wanted => same
          case Some(_: SpacedOffset) => until
          case Some(_) => new SpacedOffset(until)
          case None => until
        }
      case _ => end
    }
    known = true
    last = offset.json
    offset
  }
}

private final class SpacedOffset(plain: KafkaSourceOffset) extends KafkaSourceOffset(plain.partitionToOffsets) {
  override val json: String = plain.json + " "
}
