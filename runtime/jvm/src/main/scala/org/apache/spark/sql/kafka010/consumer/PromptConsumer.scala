// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010.consumer

import java.time.Duration
import java.util.{LinkedHashMap, List => JList, Map => JMap}
import java.util.concurrent.TimeoutException

import scala.jdk.CollectionConverters._

import org.apache.kafka.clients.consumer.{ConsumerRecord, OffsetOutOfRangeException}
import org.apache.kafka.common.TopicPartition

import org.apache.spark.{SparkEnv, TaskContext}
import org.apache.spark.sql.kafka010.consumer.InternalKafkaConsumerPool.{ObjectFactory, PoolConfig}
import org.apache.spark.sql.kafka010.consumer.KafkaDataConsumer.{AvailableOffsetRange, CacheKey}
import org.apache.spark.sql.streamapp.{DriverTask, SparkInternals}
import org.apache.spark.util.ShutdownHookManager

/**
 * Spark's consumer of a source partition, without its two requests to Kafka after each poll. Spark asks for the first and the last offset,
 * and moves there for it: what Kafka has sent ahead is thrown away. The answer counts only where records may be missing.
 *
 * If the record at the wanted offset has come, that is not so: records are deleted from a partition's start on, so none behind it is
 * deleted. Offsets that are left out behind it are those of transactions.
 */
private final class PromptConsumer(partition: TopicPartition, settings: JMap[String, Object])
  extends InternalKafkaConsumer(partition, settings) {
  private val consumer = SparkInternals.consumer(this)

  override def fetch(offset: Long, pollTimeoutMs: Long): (JList[ConsumerRecord[Array[Byte], Array[Byte]]], Long, AvailableOffsetRange) = {
    seek(offset)
    val records = consumer.poll(Duration.ofMillis(pollTimeoutMs)).records(partition)
    val next = consumer.position(partition)
    def late = new TimeoutException(s"Kafka has sent no record at offset $offset of $partition within $pollTimeoutMs ms")
    if (!records.isEmpty && records.get(0).offset == offset) (records, next, AvailableOffsetRange(offset, next))
    // To ask for the offsets may take a minute, and nothing can interrupt it here.
    else if (records.isEmpty && next == offset && DriverTask.isHere) throw late
    else {
      val range = getAvailableOffsetRange()
      if (records.isEmpty && (offset < range.earliest || offset >= range.latest))
        throw new OffsetOutOfRangeException(Map(partition -> java.lang.Long.valueOf(offset)).asJava)
      if (records.isEmpty && next == offset) throw late
      (records, next, range)
    }
  }
}

/**
 * The consumers of this process, which tasks share.
 *
 * The records of a consumer's last poll that are still to be read wait for the task that reads on. If the next range was read elsewhere, by
 * the driver or by another executor, nobody comes for them: Spark would keep them for five minutes, and others for each time that this happens.
 */
private[kafka010] object PromptConsumer {
  private val fetched = new FetchedDataPool(SparkEnv.get.conf)
  private val consumers = new InternalKafkaConsumerPool(new ObjectFactory {
    override def create(key: CacheKey): InternalKafkaConsumer = new PromptConsumer(key.topicPartition, keyToKafkaParams.get(key))
  }, new PoolConfig(SparkEnv.get.conf))
  private val MostEnds = 10000
  /** Where the last tasks of this process have stopped to read; the ones that were not used for longest are forgotten. */
  private val ends = new LinkedHashMap[CacheKey, Long](16, 0.75f, true) {
    override def removeEldestEntry(eldest: JMap.Entry[CacheKey, Long]): Boolean = size > MostEnds
  }

  ShutdownHookManager.addShutdownHook { () =>
    fetched.shutdown()
    consumers.close()
  }

  /** A consumer for the task that calls, which reads from this offset on. To be released when all is read. */
  def acquire(partition: TopicPartition, settings: JMap[String, Object], from: Long): KafkaDataConsumer = {
    val key = new CacheKey(partition, settings)
    // An earlier attempt may have failed because of it.
    val again = TaskContext.get() != null && TaskContext.get().attemptNumber() > 0
    if (again) consumers.invalidateKey(key)
    if (again || ends.synchronized(ends.containsKey(key) && ends.get(key) != from)) fetched.invalidate(key)
    new KafkaDataConsumer(partition, settings, consumers, fetched)
  }

  /** Takes a consumer back, whose task has read up to this offset. */
  def release(consumer: KafkaDataConsumer, partition: TopicPartition, settings: JMap[String, Object], until: Long): Unit = {
    consumer.release()
    ends.synchronized(ends.put(new CacheKey(partition, settings), until))
  }
}
