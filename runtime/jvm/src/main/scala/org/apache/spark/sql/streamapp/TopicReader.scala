// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.time.Duration
import java.util.Collections

import org.apache.kafka.clients.consumer.{ConsumerConfig, ConsumerRecord, KafkaConsumer}
import org.apache.kafka.common.TopicPartition
import org.apache.kafka.common.serialization.ByteArrayDeserializer

/** Reads one topic partition from an offset to the committed end that it had at the start, and then stops. */
object TopicReader {
  type Record = ConsumerRecord[Array[Byte], Array[Byte]]

  /** The longest time without any progress before the read is given up. */
  private val StallTimeoutMs = 60000L

  /**
   * Applies `onRecord` to every committed record of `[from, end)`, where `end` is the end offset for a read_committed
   * reader when the read starts. The read ends at that OFFSET, never at a last record: compaction and the markers of
   * transactions leave gaps, so the last offsets of a partition often hold no record at all.
   *
   * @param from first offset, or none for the log start
   * @param throughOpen the end is that of all records that were written when the read starts: transactions of others that
   *                    are open there are waited for, as committed records may lie behind them
   * @param onProgress called after each poll with (position - start, end - start), in offsets
   * @throws PositionMismatchException when the topic ends before `from`
   * @return the end offset reached
   */
  def readToEnd(conf: RuntimeConf, partition: TopicPartition, from: Option[Long],
      onProgress: (Long, Long) => Unit = (_, _) => (), throughOpen: Boolean = false)(onRecord: Record => Unit): Long = {
    val consumer = new KafkaConsumer(conf.client(
      ConsumerConfig.ISOLATION_LEVEL_CONFIG -> "read_committed",
      ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG -> "false",
      ConsumerConfig.AUTO_OFFSET_RESET_CONFIG -> "none",
      ConsumerConfig.MAX_POLL_RECORDS_CONFIG -> "20000",
      ConsumerConfig.FETCH_MAX_BYTES_CONFIG -> (64 << 20).toString,
      ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG -> (16 << 20).toString,
      ConsumerConfig.RECEIVE_BUFFER_CONFIG -> (1 << 20).toString,
      // All wanted records are there already: waiting for more would only add latency.
      ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG -> "50",
      ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG -> "false"),
      new ByteArrayDeserializer, new ByteArrayDeserializer)
    // The broker ends an open transaction that nobody else ends, at its timeout.
    val stallTimeoutMs = if (throughOpen) StallTimeoutMs + conf.transactionTimeoutMs else StallTimeoutMs
    try {
      val assignment = Collections.singletonList(partition)
      consumer.assign(assignment)
      val logStart: Long = consumer.beginningOffsets(assignment).get(partition)
      val committedEnd: Long = consumer.endOffsets(assignment).get(partition)
      // Kafka writes down the end of a transaction a moment after it has committed it.
      val end: Long = if (throughOpen || from.exists(_ > committedEnd)) writtenEnd(conf, partition) else committedEnd
      from.filter(_ > end).foreach { known => throw new PositionMismatchException(
        s"$partition was known up to offset $known, and ends at $end: it was deleted and made anew, or truncated; " +
          "its content is lost")
      }
      val start = from.filter(_ >= logStart).getOrElse(logStart)
      if (start < end) {
        consumer.seek(partition, start)
        var position = start
        var lastMove = System.nanoTime()
        while (position < end) {
          val batch = consumer.poll(Duration.ofMillis(500))
          batch.forEach(record => if (record.offset < end) onRecord(record))
          val now = consumer.position(partition)
          if (now > position) {
            position = now
            lastMove = System.nanoTime()
          } else if ((System.nanoTime() - lastMove) / 1000000 > stallTimeoutMs) {
            throw new IllegalStateException(
              s"reading $partition made no progress for ${stallTimeoutMs / 1000} s at offset $position of $end")
          }
          onProgress(math.min(position, end) - start, end - start)
        }
      }
      end
    } finally consumer.close()
  }

  /** The log start offset of a partition: the first record that is still there. */
  def logStart(conf: RuntimeConf, partition: TopicPartition): Long = {
    val consumer = new KafkaConsumer(conf.client(), new ByteArrayDeserializer, new ByteArrayDeserializer)
    try consumer.beginningOffsets(Collections.singletonList(partition)).get(partition) finally consumer.close()
  }

  private def writtenEnd(conf: RuntimeConf, partition: TopicPartition): Long = {
    val consumer = new KafkaConsumer(conf.client(ConsumerConfig.ISOLATION_LEVEL_CONFIG -> "read_uncommitted"),
      new ByteArrayDeserializer, new ByteArrayDeserializer)
    try consumer.endOffsets(Collections.singletonList(partition)).get(partition) finally consumer.close()
  }
}
