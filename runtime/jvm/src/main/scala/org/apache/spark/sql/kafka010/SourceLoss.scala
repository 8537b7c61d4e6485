// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import org.apache.kafka.common.TopicPartition

import org.apache.spark.internal.Logging
import org.apache.spark.sql.connector.read.streaming.Offset
import org.apache.spark.sql.streamapp.EpochReports

/** The records that an epoch does not find any more: it answers for `range`, and reads from offset `readFrom` on. */
private[kafka010] final case class Gone(range: SourceRange, readFrom: Long, records: Long)

/**
 * The handling of records that are gone before they were read, because retention has passed, somebody has deleted them, or
 * a topic was made anew: the manifest's `onSourceLoss`. Nothing is passed over without a word in the log and in the
 * application's count of lost records.
 *
 * An epoch answers for the whole range of its offset log, even if part of it is gone, so that positions and replays go by
 * the same numbers as without a loss. Records that are gone stay gone: a replay finds at least as many missing.
 */
private[kafka010] sealed trait SourceLoss {
  /** The end of the next epoch, given the one that the source would choose. */
  def passOver(start: Offset, end: Offset): Offset

  /** The missing records of an epoch's ranges. */
  def gone(start: Offset, end: Offset): Map[TopicPartition, Gone]

  /** The offset at which reading begins. */
  def without(gone: Map[TopicPartition, Gone], start: Offset): Offset =
    if (gone.isEmpty) start
    else KafkaSourceOffset(offsets(start) ++ gone.map { case (partition, lost) => partition -> lost.readFrom })

  protected def offsets(offset: Offset): Map[TopicPartition, Long] = offset match {
    case known: KafkaSourceOffset => known.partitionToOffsets
    case _ => Map.empty // nothing to read
  }
}

private[kafka010] object SourceLoss {
  /** @param policy `Fail`, `Earliest` or `Latest` */
  def apply(policy: String, kafka: KafkaMicroBatchStream, subTopology: String): SourceLoss = policy match {
    case "Fail" => Refused
    case "Earliest" => new GoneOn(kafka, subTopology, toLatest = false)
    case "Latest" => new GoneOn(kafka, subTopology, toLatest = true)
    case other => throw new IllegalArgumentException(s"onSourceLoss is '$other', not Fail, Earliest or Latest")
  }

  /** Spark's source fails by itself, if its options ask for it. */
  private object Refused extends SourceLoss {
    override def passOver(start: Offset, end: Offset): Offset = end
    override def gone(start: Offset, end: Offset): Map[TopicPartition, Gone] = Map.empty
  }

  /**
   * Goes on with what is left: with the earliest record that is there, or behind the latest. In the second case a range
   * whose beginning is gone is passed over to its end, which lies at the topic's.
   */
  private final class GoneOn(kafka: KafkaMicroBatchStream, subTopology: String, toLatest: Boolean)
      extends SourceLoss with Logging {

    override def passOver(start: Offset, end: Offset): Offset =
      if (!toLatest) end
      else {
        val first = earliest(start)
        val behind = offsets(start).collect { case (partition, from) if first.get(partition).exists(_ > from) => partition }
        val latest = offsets(kafka.reportLatestOffset())
        val moved = behind.flatMap(partition => latest.get(partition).map(partition -> _))
        if (moved.isEmpty) end else KafkaSourceOffset(offsets(end) ++ moved)
      }

    override def gone(start: Offset, end: Offset): Map[TopicPartition, Gone] = {
      val first = earliest(end)
      val found = for {
        (partition, until) <- offsets(end)
        from <- offsets(start).get(partition)
        begin <- first.get(partition)
        if from != until && (begin > from || until < from)
      } yield partition -> missing(SourceRange(partition, from, until), begin)
      found.values.foreach(report)
      found
    }

    private def missing(range: SourceRange, begin: Long): Gone = {
      val readFrom = if (toLatest) range.until else math.min(begin, range.until)
      // Nobody knows how many records a topic still had before it was made anew.
      Gone(range, readFrom, readFrom - (if (madeAnew(range)) begin else range.from))
    }

    private def report(lost: Gone): Unit = {
      val range = lost.range
      if (EpochReports.lost(subTopology, range.source, range.from, lost.records)) {
        val what = if (madeAnew(range)) "the topic was made anew" else "retention has passed, or they were deleted"
        logWarning(s"sub-topology '$subTopology': records of ${range.source} from offset ${range.from} on are gone before " +
          s"they were read ($what); ${lost.records} are passed over, going on at offset ${lost.readFrom}")
      }
    }

    private def madeAnew(range: SourceRange): Boolean = range.until < range.from

    private def earliest(of: Offset): Map[TopicPartition, Long] =
      kafka.kafkaOffsetReader.fetchEarliestOffsets(offsets(of).keys.toSeq)
  }
}
