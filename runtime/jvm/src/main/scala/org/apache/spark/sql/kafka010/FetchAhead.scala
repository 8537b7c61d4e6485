// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import java.time.Duration
import java.util.concurrent.{ExecutionException, Future, TimeoutException}
import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.kafka.clients.consumer.{CloseOptions, ConsumerConfig, ConsumerRecord, KafkaConsumer, OffsetOutOfRangeException}
import org.apache.kafka.common.TopicPartition
import org.apache.kafka.common.serialization.ByteArrayDeserializer

import org.apache.spark.sql.streamapp.{DriverTask, RuntimeConf, TooMuchForDriver}
import org.apache.spark.util.ThreadUtils

/**
 * Fetches the records of a source's small epochs for the driver, while the epoch is planned. One consumer has all partitions of the source:
 * one for each would ask as many times.
 *
 * What Kafka sends beyond an epoch is kept for the next one. A partition in which the next epoch does not begin there is fetched anew.
 */
private[kafka010] final class FetchAhead(conf: RuntimeConf) {
  import FetchAhead._

  @volatile private var consumer: Option[KafkaConsumer[Array[Byte], Array[Byte]]] = None
  /** The records that were fetched and not taken yet: all records of a partition from an offset on, as far as the consumer has come. */
  private val kept = mutable.Map[TopicPartition, Kept]()
  @volatile private var epoch: Option[Epoch] = None
  /** Whether the driver reads the epochs of this source, as far as is known. */
  @volatile private var wanted = true
  @volatile private var closed = false

  /**
   * Begins to fetch an epoch, unless the driver did not want the one before.
   *
   * @param from  the position of each partition of the source
   * @param until where the epoch ends in each of them
   */
  def begin(from: Map[TopicPartition, Long], until: Map[TopicPartition, Long]): Unit = {
    val last = epoch
    wanted &&= last.forall(_.taken)
    val isBusy = last.exists(!_.records.isDone)
    epoch = if (!wanted || isBusy) None else Some(new Epoch(from, until, threads.submit(() => fetch(from, until))))
    if (!wanted && consumer.isDefined) threads.submit[Unit](() => synchronized(forget()))
  }

  /** There is nothing to fetch before the next epoch. */
  def skip(): Unit = epoch = None

  /**
   * Returns the records of a range that the driver wants to read, or None if they are not fetched. Waits until the whole epoch is fetched.
   *
   * @throws TimeoutException when Kafka does not send them in time
   * @throws TooMuchForDriver when there are too many
   */
  def recordsOf(range: KafkaOffsetRange): Option[Iterator[Record]] = {
    wanted = true
    epoch.foreach(_.taken = true)
    val KafkaOffsetRange(partition, from, until, _) = range
    epoch.filter(of => of.from.get(partition).contains(from) && of.until.get(partition).contains(until)).flatMap { found =>
      try found.records.get(2 * MostMs, MILLISECONDS).get(partition).map(_.iterator)
      catch {
        case error: ExecutionException => error.getCause match {
          case _: OffsetOutOfRangeException => None // a reader of that partition says which records are gone, or passes over them
          case other => throw other
        }
      }
    }
  }

  private def fetch(from: Map[TopicPartition, Long], until: Map[TopicPartition, Long]): Map[TopicPartition, Seq[Record]] = synchronized {
    val toRead = until.filter { case (partition, end) => end > from(partition) }
    try {
      val client = consumerOf(from.keySet)
      kept.filterInPlace((partition, records) => from.get(partition).contains(records.from))
      for ((partition, position) <- from if !kept.contains(partition)) { // also where there is nothing to read: a consumer asks for each position
        client.seek(partition, position)
        kept(partition) = new Kept(position)
      }
      val endNs = System.nanoTime() + MILLISECONDS.toNanos(MostMs)
      var bytes = 0L
      var missing = missingIn(client, toRead)
      while (missing.nonEmpty) {
        val leftMs = NANOSECONDS.toMillis(endNs - System.nanoTime())
        if (leftMs <= 0) throw new TimeoutException(s"Kafka has not sent the records of an epoch within $MostMs ms")
        if (closed) throw new IllegalStateException("the source is closed")
        // A partition that the epoch does not read, or has read, is not fetched: its records would pile up here.
        client.pause((from.keySet -- missing).asJava)
        client.resume(missing.asJava)
        client.poll(Duration.ofMillis(leftMs)).forEach { record =>
          kept(new TopicPartition(record.topic, record.partition)).records += record
          bytes += bytesOf(record)
        }
        if (bytes > DriverTask.MostBytes) throw new TooMuchForDriver(s"more than ${DriverTask.MostBytes} bytes of records")
        missing = missingIn(client, toRead)
      }
      toRead.map { case (partition, end) => partition -> kept(partition).take(end) }
    } catch {
      case error: Throwable =>
        forget()
        throw error
    }
  }

  private def missingIn(client: KafkaConsumer[_, _], until: Map[TopicPartition, Long]): Set[TopicPartition] =
    until.collect { case (partition, end) if client.position(partition, Wait) < end => partition }.toSet

  private def consumerOf(partitions: Set[TopicPartition]): KafkaConsumer[Array[Byte], Array[Byte]] = {
    val client = consumer.getOrElse(newConsumer())
    consumer = Some(client)
    // The partitions that were there keep their positions.
    if (client.assignment.asScala != partitions) client.assign(partitions.asJava)
    client
  }

  private def newConsumer() = new KafkaConsumer(conf.client(
    ConsumerConfig.ISOLATION_LEVEL_CONFIG -> "read_committed",
    ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG -> "false",
    ConsumerConfig.AUTO_OFFSET_RESET_CONFIG -> "none",
    ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG -> "false",
    // A consumer holds in memory as much as it fetches ahead, for each source of an app.
    ConsumerConfig.FETCH_MAX_BYTES_CONFIG -> (1 << 20).toString,
    ConsumerConfig.MAX_PARTITION_FETCH_BYTES_CONFIG -> (256 << 10).toString), new ByteArrayDeserializer, new ByteArrayDeserializer)

  private def forget(): Unit = {
    kept.clear()
    consumer.foreach(_.close(CloseOptions.timeout(Duration.ZERO)))
    consumer = None
  }

  /** Closes the consumer. A fetch under way fails. */
  def close(): Unit = {
    closed = true
    consumer.foreach(_.wakeup())
    synchronized(forget())
  }
}

private[kafka010] object FetchAhead {
  type Record = ConsumerRecord[Array[Byte], Array[Byte]]
  /** For how long the driver waits for records, in milliseconds. Then it leaves them to a stage, which waits longer, and can be stopped. */
  val MostMs = 2000L
  private val Wait = Duration.ofMillis(MostMs)
  private val MostThreads = 16

  def bytesOf(record: Record): Int = math.max(0, record.serializedKeySize) + math.max(0, record.serializedValueSize)

  private lazy val threads = ThreadUtils.newDaemonCachedThreadPool("streamapp-fetch-ahead", MostThreads)

  private final class Epoch(val from: Map[TopicPartition, Long], val until: Map[TopicPartition, Long],
      val records: Future[Map[TopicPartition, Seq[Record]]]) {
    @volatile var taken = false
  }

  private final class Kept(var from: Long) {
    val records = mutable.ArrayDeque.empty[Record]

    def take(until: Long): Seq[Record] = {
      from = until
      records.removeHeadWhile(_.offset < until).toSeq
    }
  }
}
