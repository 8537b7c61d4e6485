// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.nio.charset.StandardCharsets.UTF_8
import java.time.Duration
import java.util.{Properties, TreeMap}
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.kafka.clients.producer.{KafkaProducer, ProducerConfig, ProducerRecord}
import org.apache.kafka.common.TopicPartition
import org.apache.kafka.common.errors.{InvalidProducerEpochException, ProducerFencedException}
import org.apache.kafka.common.serialization.{ByteArraySerializer, StringSerializer}

import org.apache.spark.SparkEnv

/** Another runtime of the same application has taken over. */
final class FencedException(message: String, cause: Throwable) extends RuntimeException(message, cause)

/** The applicationId belongs to somebody else. */
final class ForeignOwnerException(message: String) extends RuntimeException(message)

/** A small file of the driver: its bytes and when it was written (ms since the epoch). */
final case class MetadataFile(bytes: Array[Byte], modified: Long)

/**
 * The driver's durable files (offset log, commit log, schemas) as a compacted topic of one partition: path to bytes.
 *
 * One instance per driver. It holds all files in memory (Spark keeps about a hundred small ones per query) and is the
 * only writer: opening it fences the driver before it, whose next write fails with [[FencedException]].
 */
final class MetadataTopic private (conf: RuntimeConf, owner: String) {
  import MetadataTopic._

  private val topic = conf.metadataTopic
  private val partition = new TopicPartition(topic, 0)
  private val files = new TreeMap[String, MetadataFile]()
  @volatile private var fenced = false

  // The owner is looked at before anything is fenced: a stranger must not even disturb the rightful owner.
  private var end = readFrom(None)
  requireOwner()
  private val producer = newProducer()
  end = readFrom(Some(end)) // what the former driver had under way is settled now
  requireOwner()
  if (!files.containsKey(OwnerKey)) put(Seq(OwnerKey -> owner.getBytes(UTF_8)))

  private def requireOwner(): Unit = Option(files.get(OwnerKey)).map(file => new String(file.bytes, UTF_8)).foreach {
    case `owner` =>
    case other => throw new ForeignOwnerException(
      s"applicationId '${conf.applicationId}' belongs to '$other' on this Kafka (topic $topic), not to '$owner': " +
        "choose another spec.applicationId")
  }

  private def readFrom(from: Option[Long]): Long =
    TopicReader.readToEnd(conf, partition, from) { record =>
      val path = new String(record.key, UTF_8)
      if (record.value == null) files.remove(path) else files.put(path, MetadataFile(record.value, record.timestamp))
    }

  private def newProducer(): KafkaProducer[String, Array[Byte]] = {
    val properties: Properties = conf.client(
      ProducerConfig.TRANSACTIONAL_ID_CONFIG -> s"${conf.applicationId}/metadata",
      ProducerConfig.ACKS_CONFIG -> "all",
      ProducerConfig.LINGER_MS_CONFIG -> "0",
      ProducerConfig.TRANSACTION_TIMEOUT_CONFIG -> conf.transactionTimeoutMs.toString)
    val producer = new KafkaProducer(properties, new StringSerializer, new ByteArraySerializer)
    producer.initTransactions()
    producer
  }

  /**
   * Writes all changes or none; a null value deletes.
   * @throws FencedException when another driver has opened the topic since
   */
  def put(changes: Seq[(String, Array[Byte])]): Unit = synchronized {
    if (fenced) throw fencedError(null)
    try {
      producer.beginTransaction()
      val sent = changes.map { case (path, bytes) => producer.send(new ProducerRecord(topic, 0, path, bytes)) }
      producer.commitTransaction()
      sent.foreach(_.get())
    } catch {
      case error @ (_: ProducerFencedException | _: InvalidProducerEpochException) =>
        fenced = true
        throw fencedError(error)
    }
    val now = System.currentTimeMillis()
    changes.foreach { case (path, bytes) =>
      if (bytes == null) files.remove(path) else files.put(path, MetadataFile(bytes, now))
    }
  }

  private def fencedError(cause: Throwable) = new FencedException(
    s"another runtime of application '${conf.applicationId}' has taken over: this one stops", cause)

  def get(path: String): Option[MetadataFile] = synchronized(Option(files.get(path)))

  /** A file, a made folder, or a folder that exists because something lies below it. */
  def exists(path: String): Boolean = synchronized {
    files.containsKey(path) || files.containsKey(path + "/") || {
      val next = files.ceilingKey(path + "/")
      next != null && next.startsWith(path + "/")
    }
  }

  /** Everything below a folder, by full path. */
  def below(path: String): Seq[(String, MetadataFile)] =
    synchronized(files.subMap(path + "/", path + "0").asScala.toSeq) // '0' is the character after '/'

  def close(): Unit = synchronized(producer.close(Duration.ZERO))
}

object MetadataTopic {
  /** Holds "namespace/name/uid" of the application's owner; no path of Spark's starts like this. */
  val OwnerKey = "owner"

  private val opened = new ConcurrentHashMap[String, MetadataTopic]()

  /**
   * Opens the metadata of an application in this driver and fences an older driver.
   * @throws ForeignOwnerException when the applicationId belongs to another owner
   */
  def open(conf: RuntimeConf, owner: String): MetadataTopic =
    opened.computeIfAbsent(conf.applicationId, _ => new MetadataTopic(conf, owner))

  def close(applicationId: String): Unit = Option(opened.remove(applicationId)).foreach(_.close())

  /** The metadata this driver has opened; on an executor, writing the driver's files is an error. */
  def current(applicationId: String): MetadataTopic = {
    val topic = opened.get(applicationId)
    if (topic == null) {
      val where = Option(SparkEnv.get).map(_.executorId).getOrElse("?")
      throw new IllegalStateException(s"the metadata of '$applicationId' is not open in this process (executor $where)")
    }
    topic
  }
}
