// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import java.time.Duration
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.kafka.clients.consumer.{CloseOptions, ConsumerConfig, KafkaConsumer}
import org.apache.kafka.common.{KafkaException, TopicPartition}
import org.apache.kafka.common.errors.InterruptException
import org.apache.kafka.common.serialization.ByteArrayDeserializer

import org.apache.spark.sql.streamapp.{EpochPacer, RuntimeConf}

/**
 * Decides when a sub-topology looks for records: when the interval since it cut its last epoch is over, and then as soon as some
 * have come. While all records are read, Kafka holds a request until there are more; the source of the request need not look at
 * topics meanwhile, but every few seconds for new partitions.
 *
 * The first source that is asked in a round waits for all.
 *
 * @param run the id of the query's run
 */
private[kafka010] final class Arrivals private (run: String, subTopology: String, intervalMs: Long, conf: RuntimeConf) {
  import Arrivals._

  private var users = 0
  private val sources = mutable.Map.empty[AnyRef, Looked]
  private val rounds = new Rounds
  private val waiting = new OpenRequest(conf)
  private var cutNs: Option[Long] = None
  private var turnNs = 0L
  /** The partitions in which something has come while this round waited; None when it has not waited. */
  private var stirred: Option[Set[TopicPartition]] = None

  /** Waits for the source's turn; returns whether the source has to look for records. */
  def isToLook(source: AnyRef, start: Ends): Boolean = {
    if (rounds.begins(source)) awaitRound()
    val last = sources.get(source)
    val nothing = last.exists(_.quiet.contains(start)) && stirred.exists(_.intersect(start.keySet).isEmpty)
    !nothing || last.exists(System.nanoTime() - _.atNs > DiscoveryNs)
  }

  /** Notes that the source has looked, and could read up to there. */
  def looked(source: AnyRef, start: Ends, found: Ends): Unit =
    sources(source) = Looked(System.nanoTime(), Option.when(found == start)(start))

  /** Notes that an epoch is cut in this round, with records or because windows are over. */
  def cut(): Unit = cutNs = Some(turnNs)

  private def awaitRound(): Unit = {
    cutNs.foreach { cut =>
      def leftMs = intervalMs - NANOSECONDS.toMillis(System.nanoTime() - cut)
      while (leftMs > 0 && !draining) Thread.sleep(math.min(leftMs, ShortestMs))
    }
    val quiet = sources.values.map(_.quiet).toSeq
    stirred = Option.when(!draining && quiet.nonEmpty && quiet.forall(_.isDefined)) {
      waiting.until(quiet.flatten.flatten.toMap, math.max(ShortestMs, math.min(intervalMs, LongestMs)))
    }
    turnNs = System.nanoTime()
  }

  private def draining: Boolean = EpochPacer.of(subTopology).limit == 0

  /** Removes a source. To be called once by each, when the query ends. */
  def leave(): Unit = all.computeIfPresent(run, (_, _) => {
    users -= 1
    if (users > 0) this
    else {
      waiting.close()
      null
    }
  })
}

private[kafka010] object Arrivals {
  type Ends = Map[TopicPartition, Long]

  /** The shortest and the longest wait of a round without records. */
  private val ShortestMs = 100L
  private val LongestMs = 1000L
  /** How often a quiet source looks for new partitions. */
  private val DiscoveryNs = MILLISECONDS.toNanos(3000)

  private val all = new ConcurrentHashMap[String, Arrivals]()

  /** The last look of a source; `quiet` is where it ended, if all was read. */
  private final case class Looked(atNs: Long, quiet: Option[Ends])

  /** Returns the arrivals of a query's run, for one more source. */
  def of(run: String, subTopology: String, intervalMs: Long, conf: RuntimeConf): Arrivals =
    all.compute(run, (_, found) => {
      val arrivals = if (found == null) new Arrivals(run, subTopology, intervalMs, conf) else found
      arrivals.users += 1
      arrivals
    })
}

/** A request for records that Kafka answers when there are any. */
private final class OpenRequest(conf: RuntimeConf) extends AutoCloseable {
  private var consumer: Option[KafkaConsumer[Array[Byte], Array[Byte]]] = None

  /**
   * Waits until something comes behind these offsets, or the time is over.
   * @return the partitions in which something has come; all of them where that cannot be known
   */
  def until(ends: Arrivals.Ends, millis: Long): Set[TopicPartition] =
    try {
      val open = consumer.getOrElse(newConsumer())
      consumer = Some(open)
      if (open.assignment.asScala != ends.keySet) open.assign(ends.keySet.asJava)
      ends.foreach { case (partition, offset) => open.seek(partition, offset) }
      val found = if (ends.isEmpty) Set.empty[TopicPartition] else open.poll(Duration.ofMillis(millis)).partitions.asScala.toSet
      if (ends.isEmpty) Thread.sleep(millis)
      // Behind records of an aborted transaction there is nothing to read, but more to pass.
      found ++ ends.collect { case (partition, offset) if open.position(partition) != offset => partition }
    } catch {
      case _: InterruptException =>
        close()
        throw new InterruptedException("the query is stopped")
      case _: KafkaException => // the source that looks finds out
        close()
        Thread.sleep(millis)
        ends.keySet
    }

  private def newConsumer() = new KafkaConsumer(conf.client(
    ConsumerConfig.ISOLATION_LEVEL_CONFIG -> "read_committed",
    ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG -> "false",
    ConsumerConfig.AUTO_OFFSET_RESET_CONFIG -> "none",
    ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG -> "false",
    // Nobody wants the records.
    ConsumerConfig.FETCH_MAX_BYTES_CONFIG -> "1",
    ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG -> "1",
    ConsumerConfig.MAX_POLL_RECORDS_CONFIG -> "100000"), new ByteArrayDeserializer, new ByteArrayDeserializer)

  override def close(): Unit = {
    consumer.foreach(_.close(CloseOptions.timeout(Duration.ZERO)))
    consumer = None
  }
}
