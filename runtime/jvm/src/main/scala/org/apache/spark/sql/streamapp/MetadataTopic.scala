// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.nio.charset.StandardCharsets.UTF_8
import java.time.Duration
import java.util.{LinkedHashMap, Properties, UUID}
import java.util.concurrent.{CompletableFuture, ConcurrentHashMap, ConcurrentSkipListMap, ExecutionException}

import scala.jdk.CollectionConverters._

import org.apache.kafka.clients.producer.{KafkaProducer, ProducerConfig, ProducerRecord}
import org.apache.kafka.common.TopicPartition
import org.apache.kafka.common.errors.{InvalidPidMappingException, InvalidProducerEpochException, InvalidTxnStateException, ProducerFencedException, UnknownProducerIdException}
import org.apache.kafka.common.serialization.{ByteArraySerializer, StringSerializer}

import org.apache.spark.SparkEnv

/** Another runtime of the same application has taken over. */
final class FencedException(message: String) extends RuntimeException(message)

/** The committed state and the epoch log do not belong together: a retry cannot help. */
final class PositionMismatchException(message: String) extends RuntimeException(message)

/** The applicationId belongs to somebody else. */
final class ForeignOwnerException(message: String) extends RuntimeException(message)

/** A small file of the driver: its bytes and when it was written (ms since the epoch). */
final case class MetadataFile(bytes: Array[Byte], modified: Long)

/**
 * The driver's durable files (offset log, commit log, schemas) as a compacted topic of one partition: path to bytes.
 *
 * One instance per driver. It holds all files in memory (Spark keeps about a hundred small ones per query) and is the
 * only writer: opening it fences the driver before it, whose next write fails with [[FencedException]].
 *
 * A write is a transaction, and each epoch waits for one. Queries that write at the same time share a transaction, and a
 * change that need not be durable at once ([[defer]]) goes with the next one.
 *
 * Being fenced alone says little: the broker also fences a driver that stood still for longer than the transaction
 * timeout. So a driver writes its name before it fences: the last name on the topic is the current driver's, and a fenced
 * driver looks there.
 */
final class MetadataTopic private (conf: RuntimeConf, owner: String, adopted: Option[String]) {
  import MetadataTopic._

  private val topic = conf.metadataTopic
  private val partition = new TopicPartition(topic, 0)
  /** The files as readers see them: with the deferred changes. */
  private val files = new ConcurrentSkipListMap[String, MetadataFile]()
  private val deferred = new DeferredChanges
  private val incarnation = UUID.randomUUID().toString
  /**
   * The offset before which `files` has all records of other writers. Only reading moves it: behind a record of ours may
   * lie the name of a newer driver as well as the marker of our transaction.
   */
  private var end = 0L
  private var producer: KafkaProducer[String, Array[Byte]] = _
  private val writes = new GroupedWrites[Seq[Change]](s"the writer of $topic", writeTogether)
  private val begun = new ConcurrentHashMap[String, Begun]()
  private val confirming = new Object
  private val kafkaObjects = new OwnObjects(conf)
  private var confirmedAt = System.nanoTime() - ConfirmedForNs - 1

  locally {
    // The owner is checked before anything is fenced: a stranger must not even disturb the rightful owner.
    end = readFrom(None)
    requireOwner()
    announce()
    Failpoint.hit("metadata.announced")
    try {
      takeOver()
      requireOwner()
      if (!ownerOnRecord.contains(owner)) put(Seq(OwnerKey -> owner.getBytes(UTF_8)))
    } catch { case error: Throwable => close(); throw error }
  }

  // Outside of a transaction, because opening one would fence.
  private def announce(): Unit = {
    val outside = new KafkaProducer(conf.client(ProducerConfig.ACKS_CONFIG -> "all"),
      new StringSerializer, new ByteArraySerializer)
    try outside.send(new ProducerRecord(topic, 0, DriverKey, incarnation.getBytes(UTF_8))).get()
    finally outside.close()
  }

  private def ownerOnRecord: Option[String] = Option(files.get(OwnerKey)).map(file => new String(file.bytes, UTF_8))

  private def requireOwner(): Unit = ownerOnRecord match {
    case Some(`owner`) =>
    case found @ Some(_) if found == adopted =>
    case Some(other) =>
      val wrong = adopted.map(named => s" ('$named', which it is to adopt from, does not own it)").getOrElse("")
      throw new ForeignOwnerException(
        s"applicationId '${conf.applicationId}' belongs to '$other' on this Kafka (topic $topic), not to '$owner'$wrong: " +
          s"choose another spec.applicationId, or go on with its state: `streamapp run ... --adopt $other`, on a cluster " +
          s"`streamapp adopt NAME $other`")
    // A driver writes the owner before all keys but these: other records without an owner are no application's metadata.
    case None => files.keySet.asScala.find(key => key != DriverKey && key != ConfirmedKey).foreach { key =>
      throw new ForeignOwnerException(
        s"topic $topic has records that no application has written (the first is '${key.take(40)}'): applicationId " +
          s"'${conf.applicationId}' cannot keep its metadata there: choose another spec.applicationId")
    }
  }

  // The files appear all at once, each in its last state: other threads may be reading them.
  private def readFrom(from: Option[Long]): Long = {
    val found = new LinkedHashMap[String, Option[MetadataFile]]
    val end = TopicReader.readToEnd(conf, partition, from) { record =>
      found.put(new String(record.key, UTF_8), Option(record.value).map(MetadataFile(_, record.timestamp)))
    }
    val later = deferred.all.map(_._1).toSet ++ begun.values.asScala.filterNot(_.write.isDone).flatMap(_.paths)
    found.forEach((path, file) => if (!later(path)) show(path, file))
    end
  }

  private def show(path: String, file: Option[MetadataFile]): Unit = file match {
    case Some(some) => files.put(path, some)
    case None => files.remove(path)
  }

  private def showNow(changes: Seq[Change]): Unit = {
    val now = System.currentTimeMillis()
    changes.foreach { case (path, bytes) => show(path, Option(bytes).map(MetadataFile(_, now))) }
  }

  private def newProducer(): KafkaProducer[String, Array[Byte]] = {
    val properties: Properties = conf.client(
      ProducerConfig.TRANSACTIONAL_ID_CONFIG -> s"${conf.applicationId}/metadata",
      ProducerConfig.ACKS_CONFIG -> "all",
      ProducerConfig.LINGER_MS_CONFIG -> "0",
      ProducerConfig.TRANSACTION_TIMEOUT_CONFIG -> conf.transactionTimeoutMs.toString)
    val producer = new KafkaProducer(properties, new StringSerializer, new ByteArraySerializer)
    try producer.initTransactions()
    catch { case error: Throwable => producer.close(Duration.ZERO); throw error }
    producer
  }

  /**
   * Writes all changes or none, with the changes that were deferred before; a null value deletes. When Kafka does not
   * answer, the outcome is unknown: the call fails, and the next one first finds out what is there.
   * @throws FencedException when another driver has opened the topic since
   */
  def put(changes: Seq[Change]): Unit = writes(changes)

  /**
   * Begins to write a file, and what goes with it. This driver sees it at once; nothing must rest on it before [[await]] of its folder has
   * returned. If it cannot be written, it is gone again.
   */
  def begin(path: String, changes: Seq[Change]): Unit = {
    val before = changes.map { case (changed, _) => changed -> get(changed) }
    showNow(changes)
    val write = writes.begin(changes).whenComplete((_, error) => if (error != null) before.foreach { case (changed, file) => show(changed, file) })
    begun.put(folderOf(path), Begun(path, changes.map(_._1), write))
  }

  /** Waits for the file of that folder whose write has begun last, if nobody has waited for it. Throws what the write has thrown. */
  def await(folder: String): Unit = Option(begun.get(folder)).foreach { file =>
    try GroupedWrites.await(file.write)
    finally if (file.write.isDone) begun.remove(folder, file)
    Failpoint.hitAt("metadata.after-write", file.path)
  }

  /** Waits until no file of that folder is being written: then this driver sees what is there. */
  def settle(folder: String): Unit = Option(begun.get(folder)).foreach { file =>
    try file.write.get()
    catch { case _: ExecutionException => () } // who waits for the file finds out
  }

  /**
   * Makes changes that this driver sees at once, and that the next [[put]] writes. If the driver ends before that, the
   * changes are lost.
   */
  def defer(changes: Seq[Change]): Unit = {
    deferred.add(changes)
    showNow(changes)
  }

  /** Writes the deferred changes, if there are any: then all that this driver has seen so far is durable. */
  def flush(): Unit = if (deferred.all.nonEmpty) put(Nil)

  private def writeTogether(group: Seq[Seq[Change]]): Unit = {
    val before = deferred.all
    val all = before +: group
    try write(all)
    catch { case error if isDisowned(error) => write(all) } // reopens; writing the same again changes nothing
    deferred.forget(before)
    group.foreach(showNow)
  }

  private def write(changes: Seq[Seq[Change]]): Unit =
    try {
      if (producer == null) reopen()
      producer.beginTransaction()
      for (some <- changes; (path, bytes) <- some) producer.send(new ProducerRecord(topic, 0, path, bytes))
      producer.flush() // a commit that is asked for before can overtake records (see TaskTransaction)
      for (some <- changes; (path, _) <- some) Failpoint.hitAt("metadata.before-commit", path)
      producer.commitTransaction()
    } catch {
      case error: Throwable =>
        closeProducer()
        throw error
    }

  /**
   * Makes sure, by a write, that no other driver has taken over, and that no internal topic was made anew. A confirmation
   * within the last second is trusted, unless it must be made `now`.
   * @throws FencedException when another driver has opened the topic since
   * @throws PositionMismatchException when an internal topic is not the one on record
   */
  def confirm(now: Boolean = false): Unit = {
    confirming.synchronized {
      if (now || System.nanoTime() - confirmedAt > ConfirmedForNs) {
        put(Seq(ConfirmedKey -> incarnation.getBytes(UTF_8)))
        confirmedAt = System.nanoTime()
      }
    }
    kafkaObjects.requireKept(own)
  }

  /** The records `own/…` by key: they name the application's objects in Kafka. */
  def own: Map[String, String] =
    below(OwnObjects.Folder).map { case (key, file) => key -> new String(file.bytes, UTF_8) }.toMap

  /** Whether no consumer group of the applicationId's name has members or offsets. */
  def groupIsFree: Boolean = kafkaObjects.groupIsFree(conf.applicationId)

  // Looks for a newer driver first, so that we do not fence it.
  private def reopen(): Unit = {
    end = readFrom(Some(end))
    requireCurrent()
    takeOver()
  }

  // The new producer settles the transaction under way, ours or a former driver's.
  private def takeOver(): Unit = {
    producer = newProducer()
    end = readFrom(Some(end))
    requireCurrent()
  }

  private def requireCurrent(): Unit =
    if (!files.containsKey(DriverKey) || new String(files.get(DriverKey).bytes, UTF_8) != incarnation) {
      throw new FencedException(
        s"another runtime of application '${conf.applicationId}' has taken over: this one stops")
    }

  private def closeProducer(): Unit = if (producer != null) {
    producer.close(Duration.ZERO)
    producer = null
  }

  def get(path: String): Option[MetadataFile] = Option(files.get(path))

  /** Whether the path is a file, a made folder, or a folder that exists because something lies below it. */
  def exists(path: String): Boolean = files.containsKey(path) || {
    val next = files.ceilingKey(path + "/")
    next != null && next.startsWith(path + "/")
  }

  /** Everything below a folder, by full path. */
  def below(path: String): Seq[(String, MetadataFile)] =
    files.subMap(path + "/", path + "0").asScala.toSeq // '0' is the character after '/'

  /** Closes the topic. Deferred changes are not written any more. */
  def close(): Unit = {
    writes.close(() => closeProducer())
    kafkaObjects.close()
  }
}

object MetadataTopic {
  /** A file's path and its new content; null for a file that is gone. */
  type Change = (String, Array[Byte])

  /** A file whose write has begun, and all paths that are written with it. */
  private final case class Begun(path: String, paths: Seq[String], write: CompletableFuture[Unit])

  private def folderOf(path: String): String = path.take(path.lastIndexOf('/'))

  /** Holds the application's owner: "namespace/name/uid", or "local/name" on a laptop. No path of Spark's starts like this. */
  val OwnerKey = "owner"

  /** The key of the driver that opened the topic last: each driver writes it once. */
  private val DriverKey = "driver"

  /** The key of the driver that confirmed itself last: it decides nothing, as two drivers may confirm at once. */
  private val ConfirmedKey = "confirmed"

  private val ConfirmedForNs = 1000000000L

  /** Whether the producer is no longer the one of its transactional id, which has several causes (see [[MetadataTopic]]). */
  private[streamapp] def isDisowned(error: Throwable): Boolean = Iterator.iterate(error)(_.getCause).takeWhile(_ != null).exists {
    case _: ProducerFencedException | _: InvalidProducerEpochException | _: InvalidTxnStateException |
        _: InvalidPidMappingException | _: UnknownProducerIdException => true
    case _ => false
  }

  private val opened = new ConcurrentHashMap[String, MetadataTopic]()

  /**
   * Opens the metadata of an application in this driver and fences an older driver.
   * @param adopted a former owner: `owner` takes over its state if the applicationId still belongs to it
   * @throws ForeignOwnerException when the applicationId belongs to another owner
   */
  def open(conf: RuntimeConf, owner: String, adopted: Option[String]): MetadataTopic =
    opened.computeIfAbsent(conf.applicationId, _ => new MetadataTopic(conf, owner, adopted))

  def close(applicationId: String): Unit = Option(opened.remove(applicationId)).foreach(_.close())

  /**
   * The reason why an executor must not fence on behalf of this driver: another driver has taken over, or an internal
   * topic was made anew. None when all is well, or when this process has opened no metadata and so cannot know.
   */
  def objection(applicationId: String, now: Boolean = false): Option[RuntimeException] = Option(opened.get(applicationId)).flatMap { topic =>
    try { topic.confirm(now); None } catch { case found @ (_: FencedException | _: PositionMismatchException) =>
      Some(found.asInstanceOf[RuntimeException])
    }
  }

  /** The metadata that this driver has opened, if any. */
  def find(applicationId: String): Option[MetadataTopic] = Option(opened.get(applicationId))

  /** The metadata that this driver has opened; on an executor, writing the driver's files is an error. */
  def current(applicationId: String): MetadataTopic = {
    val topic = opened.get(applicationId)
    if (topic == null) {
      val where = Option(SparkEnv.get).map(_.executorId).getOrElse("?")
      throw new IllegalStateException(s"the metadata of '$applicationId' is not open in this process (executor $where)")
    }
    topic
  }
}
