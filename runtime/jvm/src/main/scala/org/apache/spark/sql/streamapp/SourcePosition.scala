// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.ConcurrentHashMap

import org.apache.kafka.clients.producer.ProducerRecord
import org.apache.kafka.common.TopicPartition
import org.apache.kafka.common.utils.Utils.{murmur2, toPositive}

/**
 * How far a sub-topology without state has come in one source partition, kept on the compacted topic
 * `APP-position` under the key `SUBTOPOLOGY/TOPIC/PARTITION` and written in the transaction of the output.
 *
 * An epoch's range `[from, until)` comes from Spark's offset log and is the same in every replay, so the position
 * says all: at `from` the range is still to be done, at `until` it is done with all its effects.
 */
final class SourcePosition private (conf: RuntimeConf, val source: TopicPartition, partitions: Int)
    extends TransactionParticipant {
  import SourcePosition.Nothing

  val transactionId: String = s"${conf.subTopology}/${source.topic}/${source.partition}"
  private val key = transactionId.getBytes(UTF_8)
  private val home = new TopicPartition(conf.positionTopic, toPositive(murmur2(key)) % partitions)

  // What this process read or committed last.
  private var known: Option[Long] = None

  /**
   * Takes the transaction for this task attempt and decides whether the range is still to be done.
   *
   * @throws IllegalStateException when the position is neither at the range's start nor at its end
   */
  def begin(transaction: TaskTransaction, epoch: Long, from: Long, until: Long): Unit = {
    transaction.begin(epoch)
    // What is known in this process is good only if nobody else can have committed since.
    val remembered = known.filter(position => transaction.live && (position == from || position == until))
    val position = remembered.getOrElse(readFenced(transaction))
    known = Some(position)
    if (position == until) transaction.markAlreadyDone()
    else if (position != Nothing && position != from) {
      throw new IllegalStateException(
        s"sub-topology '${conf.subTopology}': $source is committed up to offset $position, " +
          s"but epoch $epoch covers [$from, $until): the position on ${home.topic} and the epoch log disagree")
    }
  }

  private def readFenced(transaction: TaskTransaction): Long = {
    transaction.fence()
    var position = Nothing
    TopicReader.readToEnd(conf, home, None) { record =>
      if (java.util.Arrays.equals(record.key, key)) position = ByteBuffer.wrap(record.value).getLong
    }
    position
  }

  def mark(transaction: TaskTransaction, until: Long): Unit =
    transaction.mark(this, until,
      new ProducerRecord(home.topic, home.partition, key, ByteBuffer.allocate(8).putLong(until).array))

  override def confirmed(version: Long, nextOffset: Long): Unit = known = Some(version)
}

object SourcePosition {
  /** Nothing was ever committed. */
  private val Nothing = -1L

  private val positions = new ConcurrentHashMap[String, SourcePosition]()

  def of(conf: RuntimeConf, source: TopicPartition, partitions: Int): SourcePosition =
    positions.computeIfAbsent(s"${conf.applicationId}/${conf.subTopology}/$source",
      _ => new SourcePosition(conf, source, partitions))
}
