// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import java.time.Duration

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.kafka.clients.consumer.{CloseOptions, ConsumerConfig, KafkaConsumer}
import org.apache.kafka.common.TopicPartition
import org.apache.kafka.common.errors.{InterruptException, TimeoutException}
import org.apache.kafka.common.serialization.ByteArrayDeserializer

import org.apache.spark.sql.streamapp.RuntimeConf

/** A record: where it is, and its timestamp in milliseconds. */
private[kafka010] final case class Place(offset: Long, time: Long)

private[kafka010] object Place {
  /** The place behind the last record. */
  val End: Place = Place(Long.MaxValue, 0L)
}

/** The offsets of records that wait to be read: from the first, up to but not including the last. */
private[kafka010] final case class Unread(from: Long, until: Long)

/** Finds records of partitions. */
private[kafka010] trait Log {
  /** The first record, or end of a transaction, of each partition that has this timestamp, in milliseconds, or a later one. */
  def at(partitions: Set[TopicPartition], time: Long): Map[TopicPartition, Place]

  /** The first record at or behind an offset; None where there is none before `until`. */
  def first(partition: TopicPartition, offset: Long, until: Long): Option[Place]
}

/** The same, asked of Kafka. */
private[kafka010] final class KafkaLog(conf: RuntimeConf) extends Log with AutoCloseable {
  private val offsets = new PartitionOffsets(conf)
  private var reader = Option.empty[RecordReader]

  override def at(partitions: Set[TopicPartition], time: Long): Map[TopicPartition, Place] = offsets.at(partitions, time)

  override def first(partition: TopicPartition, offset: Long, until: Long): Option[Place] = {
    if (reader.isEmpty) reader = Some(new RecordReader(conf))
    reader.get.first(partition, offset, until)
  }

  override def close(): Unit = {
    offsets.close()
    reader.foreach(_.close())
  }
}

/**
 * Finds records by their timestamps.
 *
 * Kafka's index has the ends of transactions too, with the time at which they ended. Where the records are older than that, as in a topic that
 * was written from a backlog, Kafka's answer is such an end and no record. And behind deleted records it finds none until it has removed their
 * segment, minutes later. So where its answer is no record, the records themselves are asked, by halves.
 *
 * The answers say the same as long as the records are in the order of their timestamps; a little disorder moves them a little.
 */
private[kafka010] final class TimeIndex(log: Log) {
  import TimeIndex._

  private var unread = Map.empty[TopicPartition, Unread]
  /** The first record at or behind an offset, by partition and offset, in this epoch. */
  private val asked = mutable.Map.empty[TopicPartition, mutable.SortedMap[Long, Option[Place]]]
  /** Offsets that Kafka has answered with last, and whether a record is there. */
  private val answers = mutable.Map.empty[TopicPartition, (Long, Boolean)]

  /**
   * The first record of each partition that has this timestamp, in milliseconds, or a later one; one behind the waiting records may be taken for
   * [[Place.End]].
   *
   * @param waiting the same for all questions of an epoch
   */
  def at(waiting: Map[TopicPartition, Unread], time: Long): Map[TopicPartition, Place] = {
    if (waiting ne unread) {
      unread = waiting
      asked.clear()
    }
    log.at(waiting.keySet, time).map { case (partition, place) =>
      def isNear = place.offset >= waiting(partition).from && place.time - time < MarkerMs
      // A record that was read already says that the partition's time has come there.
      val found = if (place != Place.End && (isNear || isRecord(partition, place.offset))) place else search(partition, time)
      partition -> found
    }
  }

  private def isRecord(partition: TopicPartition, offset: Long): Boolean = {
    val known = answers.get(partition).collect { case (`offset`, is) => is }
    known.getOrElse {
      val is = log.first(partition, offset, offset + 1).isDefined
      answers(partition) = (offset, is)
      is
    }
  }

  private def search(partition: TopicPartition, time: Long): Place = {
    val Unread(from, until) = unread(partition)
    val known = asked.getOrElseUpdate(partition, mutable.SortedMap.empty)
    def first(offset: Long) = known.getOrElseUpdate(offset, log.first(partition, offset, until))
    def isLate(record: Option[Place]) = record.forall(_.time >= time)
    if (isLate(first(from))) first(from).getOrElse(Place.End)
    else {
      first(until - 1)
      // Earlier questions have narrowed it down.
      var high = known.collectFirst { case (offset, record) if isLate(record) => offset }.getOrElse(until)
      var low = known.rangeUntil(high).values.flatten.map(_.offset + 1).max
      while (low < high) {
        val middle = low + (high - low) / 2
        first(middle) match {
          case Some(record) if record.time < time => low = record.offset + 1
          case _ => high = middle
        }
      }
      known.get(high).flatten.getOrElse(Place.End)
    }
  }
}

private object TimeIndex {
  /** The end of a transaction lies about that close behind its records where these are written as they come to be. */
  val MarkerMs = 10000L
}

/** Reads single records. */
private final class RecordReader(conf: RuntimeConf) extends AutoCloseable {
  private val consumer = new KafkaConsumer(conf.client(
    ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG -> "false",
    ConsumerConfig.AUTO_OFFSET_RESET_CONFIG -> "none",
    ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG -> "false",
    ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG -> "1",
    // A batch at a time.
    ConsumerConfig.FETCH_MAX_BYTES_CONFIG -> "1",
    ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG -> "1",
    ConsumerConfig.MAX_POLL_RECORDS_CONFIG -> "1"), new ByteArrayDeserializer, new ByteArrayDeserializer)

  /** Throws KafkaException when Kafka does not answer. */
  def first(partition: TopicPartition, offset: Long, until: Long): Option[Place] =
    try {
      consumer.assign(Seq(partition).asJava)
      consumer.seek(partition, offset)
      val giveUpNs = System.nanoTime() + RecordReader.AnswerNs
      var found = Option.empty[Place]
      while (found.isEmpty && consumer.position(partition) < until) {
        if (System.nanoTime() > giveUpNs) throw new TimeoutException(s"$partition: no record from offset $offset on came")
        found = consumer.poll(Duration.ofMillis(RecordReader.PollMs)).records(partition).asScala.headOption
          .map(record => Place(record.offset, record.timestamp))
      }
      found.filter(_.offset < until)
    } catch {
      case _: InterruptException => throw new InterruptedException("the query is stopped")
    }

  override def close(): Unit = consumer.close(CloseOptions.timeout(Duration.ZERO))
}

private object RecordReader {
  val PollMs = 1000L
  val AnswerNs = 30000000000L
}
