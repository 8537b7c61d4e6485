// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.time.Duration
import java.util.BitSet
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.{AtomicLong, AtomicReference}

import scala.collection.mutable

import org.apache.kafka.clients.producer.{Callback, KafkaProducer, ProducerConfig, ProducerRecord, RecordMetadata}
import org.apache.kafka.common.KafkaException
import org.apache.kafka.common.serialization.ByteArraySerializer

import org.apache.spark.TaskContext

/** A store whose changes belong to the transaction of its task. */
trait TransactionParticipant {
  /** Called when the marker has its place on the topic, before it is committed. Throws where it cannot belong there. */
  def arrived(nextOffset: Long): Unit = ()

  /** Called when the changes up to and including `version` are committed in Kafka; `nextOffset` follows their marker. */
  def confirmed(version: Long, nextOffset: Long): Unit
  /** Called when the id was taken anew, after this participant has relied on nobody else having it. Throws where somebody has committed. */
  def requireUnchanged(): Unit = ()
  /** Called when the changes that were marked do not become real, or when that is not known. */
  def lost(): Unit = ()
}

/**
 * One Kafka transaction per task and epoch: the records of the sink, the changelogs of all stores of the task,
 * and the markers that say which epoch they belong to, are committed together or not at all. A task may have several partitions; those
 * whose epoch is committed already have no part in it.
 *
 * A transaction is owned by one task attempt at a time. Every call checks that the calling attempt is the owner,
 * so that an attempt which Spark has already given up (a zombie) cannot add records to its successor's work.
 * Across processes Kafka fences: [[fence]] bumps the epoch of the transactional id, which aborts what an earlier
 * holder left open and makes its later calls fail. The driver is asked first whether it is still the application's. Where the same
 * partition may come under another id, it is asked afterwards as well: see [[TransactionalIds]].
 *
 * With `at-least-once` the same calls are made without a transaction: outputs and deltas are flushed before the
 * markers are sent, so a crash can repeat records but never lose one.
 *
 * @param id unique in the application: `SUBTOPOLOGY/PARTITION` with the task's first partition, or `SUBTOPOLOGY/TOPIC/PARTITION` where
 *           there is no state (a slash cannot stand in either name, so no two ids meet)
 */
final class TaskTransaction private[streamapp] (conf: RuntimeConf, val id: String) {
  import TaskTransaction._

  private var producer: KafkaProducer[Array[Byte], Array[Byte]] = _
  private var open = false
  private var openedNs = 0L
  private var timeoutMs = 0
  // Whether the producer was made for work that is tried again, and has the longest timeout.
  private var extended = false
  private var fencedBy = NoAttempt
  /** The run of the query in which the producer was made: a later one has taken the id from it. */
  private var connectedIn: Option[String] = None
  // One per producer: a discarded producer still reports the records it dropped, and that must not hit its successor.
  private var deliveries = new Deliveries
  private val marks = mutable.LinkedHashMap[TransactionParticipant, Mark]()
  /** Those whose changes do not count, as their epoch was committed before. */
  private val dropped = mutable.Set[TransactionParticipant]()

  @volatile private var owner = NoAttempt
  /** Those that have taken part and have not left. */
  private val users = ConcurrentHashMap.newKeySet[TransactionParticipant]()
  /** Those that rely on the producer, in the attempt of the owner. */
  private val relying = mutable.Set[TransactionParticipant]()
  private var epoch = -1L
  // Looked at for each change of a store.
  private val done = new BitSet
  private var sent = 0L
  private var sentBytes = 0L
  @volatile private var usedAtMs = System.currentTimeMillis()

  /** Gives the transaction to the current attempt, for `epoch`; the same attempt may call again (Spark loads twice). */
  def begin(epoch: Long, participant: TransactionParticipant): Unit = synchronized {
    val attempt = currentAttempt
    users.add(participant)
    if (owner != attempt) {
      if (open) discard() // a former attempt ended without commit or abort
      lose()
      owner = attempt
      this.epoch = epoch
      done.clear()
      relying.clear()
      sent = 0L
      sentBytes = 0L
    } else if (epoch != this.epoch) {
      throw new IllegalStateException(s"$id: stores of one task are at epochs ${this.epoch} and $epoch")
    }
  }

  def ownerAttempt: Long = owner

  /** Whether all effects of this epoch on a partition are already committed: then nothing may be processed or sent. */
  def alreadyDone(partition: Int): Boolean = done.get(partition)

  def markAlreadyDone(partition: Int): Unit = synchronized { checkOwner(); done.set(partition) }

  /**
   * Makes this process the only one that can commit under this id, and settles what an earlier holder left open,
   * so that a read_committed reader's end offset is final afterwards. Once per attempt.
   */
  def fence(): Unit = synchronized {
    checkOwner()
    if (fencedBy != owner && !open) {
      discard()
      RuntimePlugin.requireDriver(conf.applicationId)
      extended = TransactionTimeout.isAgain
      try {
        connect(if (extended) TransactionTimeout.most(conf) else conf.transactionTimeoutMs)
        if (conf.exactlyOnce && isOfState) TransactionalIds.requireRun(conf.applicationId)
        relying.foreach(_.requireUnchanged())
      } catch { case error: Throwable => discard(); throw error }
      fencedBy = owner
    }
  }

  private def isOfState: Boolean = conf.stores.nonEmpty

  private def connect(timeoutMs: Int): Unit = {
    this.timeoutMs = timeoutMs
    connectedIn = TransactionalIds.runOfTask
    producer = newProducer()
    try if (conf.exactlyOnce) producer.initTransactions()
    catch {
      case error: KafkaException if timeoutMs > conf.transactionTimeoutMs && TransactionTimeout.isRefused(error) =>
        producer.close(Duration.ZERO)
        connect(TransactionTimeout.less(conf, timeoutMs))
    }
  }

  /**
   * Whether this process holds a producer that is not known to be fenced, and whose transactions may take as long as the task
   * needs. Another producer must not just take its place: commits of others in the meantime would be missed.
   */
  def live: Boolean = synchronized(hasProducer && connectedIn == TransactionalIds.runOfTask &&
    (extended || !conf.exactlyOnce || !TransactionTimeout.isAgain))

  private def hasProducer: Boolean = producer != null

  /**
   * Whether nobody can have committed for this participant since its last commit in this process; it relies on that. Not so where the
   * attempt has made the producer, for another participant.
   */
  def keeps(participant: TransactionParticipant): Boolean = synchronized {
    val kept = live && fencedBy != owner
    if (kept) relying += participant
    kept
  }

  // Synchronized with begin(): between a zombie's check and its send, its successor must not open a transaction.
  def send(partition: Int, record: ProducerRecord[Array[Byte], Array[Byte]]): Unit = synchronized {
    checkOwner()
    if (done.get(partition)) {
      throw new IllegalStateException(s"$id: epoch $epoch of partition $partition is already committed, a record must not be sent")
    }
    if (!open) openTransaction()
    val size = (if (record.key == null) 0 else record.key.length) + (if (record.value == null) 0 else record.value.length)
    sent += 1
    sentBytes += size
    deliveries.sent += 1
    val waiting = deliveries.waitingBytes.addAndGet(size)
    producing(producer.send(record, new Sent(size, record.timestamp, deliveries)))
    if (waiting > LeastWaitingBytes && waiting > mostWaitingBytes(conf)) producing(producer.flush())
  }

  /**
   * Takes the marker of a participant that has sent all changes of the epoch; the marker goes out with the commit. Where the epoch is
   * committed already, the participant has changed nothing that counts, and loses it with the commit.
   */
  def mark(partition: Int, participant: TransactionParticipant, version: Long, marker: ProducerRecord[Array[Byte], Array[Byte]]): Unit =
    synchronized {
      checkOwner()
      if (done.get(partition)) dropped += participant
      else marks.put(participant, new Mark(partition, version, marker, deliveries))
    }

  def markedVersions(partition: Int): Iterable[Long] = marks.values.filter(_.partition == partition).map(_.version)

  def recordsSent: Long = sent
  def bytesSent: Long = sentBytes

  /**
   * Commits. A crash leaves behind, step by step:
   *  1. before the markers: an open transaction, aborted by the next holder's fence; the epoch runs again
   *  2. markers sent, not committed: the same
   *  3. committed: the marker is visible, the epoch's replay finds it and does nothing
   */
  def commit(): Unit = synchronized {
    checkOwner()
    if (open || marks.nonEmpty) {
      if (!open) openTransaction()
      Failpoint.hit("transaction.before-markers", epoch, firstPartition)
      if (!conf.exactlyOnce) awaitArrival()
      deliveries.sent += marks.size
      deliveries.waitingBytes.addAndGet(marks.values.map(_.record.value.length.toLong).sum)
      producing(marks.values.foreach(mark => producer.send(mark.record, mark)))
      awaitArrival()
      marks.foreach { case (participant, mark) => participant.arrived(mark.nextOffset) }
      Failpoint.hit("transaction.before-commit", epoch, firstPartition)
      if (conf.exactlyOnce) producing(producer.commitTransaction())
      open = false
      Failpoint.hit("transaction.after-commit", epoch, firstPartition)
      while (marks.nonEmpty) {
        val (participant, mark) = marks.head
        marks.remove(participant)
        participant.confirmed(mark.version, mark.nextOffset)
      }
      // A transaction that a process leaves open holds readers up until its timeout: a long timeout serves one epoch. The next task
      // makes a producer as after a move, so that it misses nothing.
      if (extended && conf.exactlyOnce) discard()
    }
    lose()
    owner = NoAttempt
    usedAtMs = System.currentTimeMillis()
  }

  /** Aborts the attempt, which has failed: its records must never become visible. */
  def abort(): Unit = synchronized {
    if (owner != NoAttempt && owner == currentAttempt) {
      discard()
      lose()
      owner = NoAttempt
    }
  }

  /**
   * Takes a participant's leave. The last one closes the producer, e.g. when the partitions have moved to another executor. The stores of
   * a former run of the query leave late, long after those of the next run have come.
   *
   * @param last whether the participant has used this transaction last. It must not wait for one that others use now: a store is closed
   *             with the lock of its own transaction held. One that nobody uses is closed later.
   */
  def leave(participant: TransactionParticipant, last: Boolean): Unit =
    if (users.remove(participant) && last) synchronized { if (users.isEmpty) close() }

  /** Closes the transaction if nobody has used it since; returns false where it stays. A later task takes its id anew. */
  private def closeUnused(sinceMs: Long): Boolean = {
    def unused = owner == NoAttempt && usedAtMs < sinceMs
    unused && synchronized {
      val still = unused
      if (still) close()
      still
    }
  }

  private def close(): Unit = synchronized {
    discard()
    lose()
    owner = NoAttempt
    users.clear()
  }

  private def lose(): Unit = {
    val lost = marks.keys.toList ++ dropped
    marks.clear()
    dropped.clear()
    lost.foreach(_.lost())
  }

  private def firstPartition: Int = id.substring(id.lastIndexOf('/') + 1).toInt

  private def openTransaction(): Unit = {
    if (producer == null) throw new IllegalStateException(s"$id: no producer, the store was not loaded in this process")
    if (conf.exactlyOnce) producer.beginTransaction()
    openedNs = System.nanoTime()
    open = true
  }

  // Closing without commit leaves the transaction to the broker, which aborts it at the next holder's
  // initTransactions or at the timeout: nothing here may block a task that is being cancelled.
  private def discard(): Unit = {
    open = false
    fencedBy = NoAttempt
    deliveries = new Deliveries
    if (producer != null) {
      try producer.close(Duration.ZERO) catch { case _: Exception => }
      producer = null
    }
  }

  private def checkOwner(): Unit = {
    val attempt = currentAttempt
    if (attempt != owner) {
      throw new IllegalStateException(s"$id: task attempt $attempt does not own the transaction (owner: $owner)")
    }
    rethrowSendError()
  }

  private def rethrowSendError(): Unit = {
    val error = deliveries.firstError.get
    if (error != null) throw explained(error.inFull(conf))
  }

  /** After a failed send every call of the producer fails, and says only that an earlier call has: the first error counts. */
  private def producing[Result](call: => Result): Result =
    try call catch { case error: KafkaException => rethrowSendError(); throw explained(error) }

  // Kafka says only that the producer is no longer the one of its id.
  private def explained(error: Exception): Exception = {
    val tookMs = (System.nanoTime() - openedNs) / 1000000
    if (!conf.exactlyOnce || !open || tookMs < timeoutMs || !TransactionTimeout.mayHaveEnded(error)) error
    else {
      val records = TransactionTimeout.recordsOfEpoch.map(count => s", which has $count records").getOrElse("")
      val slow = if (conf.functions.isEmpty) "the work on its records" else s"the work of ${conf.functions} on its records"
      val help = if (extended) "raise the brokers' transaction.max.timeout.ms, or make that work shorter"
        else "the epoch is tried again with as much time as the brokers allow; make that work shorter, or raise " +
          "spec.transactionTimeout"
      new OverdueTransactionException(s"partition $firstPartition: the transaction of epoch $epoch$records, was open for " +
        s"${tookMs / 1000} s, and Kafka ends one after ${timeoutMs / 1000} s: $slow takes too long; $help", error)
    }
  }

  /** The records that one producer got, and their fate. */
  private final class Deliveries {
    var sent = 0L
    val arrived = new AtomicLong
    val waitingBytes = new AtomicLong
    val firstError = new AtomicReference[SendError]
  }

  /**
   * Waits until Kafka has every record that was sent. The commit must not be asked for before: the producer's sender looks
   * for records still to be sent, and only then whether a commit is asked for. Both can come in between, and the commit
   * overtakes the records, which then are never part of it (Kafka 4.1.0).
   *
   * One flush can return before a batch that the broker found too large has arrived in its parts (KAFKA-19479).
   */
  private def awaitArrival(): Unit = producing {
    producer.flush()
    val flushed = System.nanoTime()
    while (deliveries.firstError.get == null && deliveries.arrived.get < deliveries.sent) {
      if (System.nanoTime() - flushed > ArrivalTimeoutNs) {
        throw new IllegalStateException(s"$id: Kafka's producer has lost ${deliveries.sent - deliveries.arrived.get} of " +
          s"${deliveries.sent} records and has reported no error; epoch $epoch is not committed")
      }
      Thread.sleep(1)
      producer.flush()
    }
    rethrowSendError()
  }

  private class Sent(size: Int, timestampMs: java.lang.Long, deliveries: Deliveries) extends Callback {
    override def onCompletion(metadata: RecordMetadata, error: Exception): Unit = {
      deliveries.waitingBytes.addAndGet(-size)
      if (error == null) deliveries.arrived.incrementAndGet()
      else deliveries.firstError.compareAndSet(null, new SendError(error, metadata.topic, size, timestampMs))
    }
  }

  private final class Mark(val partition: Int, val version: Long, val record: ProducerRecord[Array[Byte], Array[Byte]],
      deliveries: Deliveries) extends Sent(record.value.length, record.timestamp, deliveries) {
    @volatile var nextOffset: Long = -1L
    override def onCompletion(metadata: RecordMetadata, error: Exception): Unit = {
      super.onCompletion(metadata, error)
      if (error == null) nextOffset = metadata.offset + 1
    }
  }

  private def newProducer(): KafkaProducer[Array[Byte], Array[Byte]] = {
    val properties = conf.client(
      ProducerConfig.ACKS_CONFIG -> "all",
      ProducerConfig.LINGER_MS_CONFIG -> "20",
      ProducerConfig.BATCH_SIZE_CONFIG -> (256 << 10).toString,
      ProducerConfig.BUFFER_MEMORY_CONFIG -> BufferBytes.toString,
      ProducerConfig.MAX_REQUEST_SIZE_CONFIG -> MaxRequestBytes.toString,
      ProducerConfig.COMPRESSION_TYPE_CONFIG -> "lz4",
      ProducerConfig.CLIENT_ID_CONFIG -> s"${conf.applicationId}/$id")
    if (conf.exactlyOnce) {
      properties.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, TransactionalIds.inKafka(conf, id))
      properties.put(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, timeoutMs.toString)
    }
    new KafkaProducer(properties, new ByteArraySerializer, new ByteArraySerializer)
  }
}

object TaskTransaction {
  private val NoAttempt = -1L
  // Longer than a producer tries to deliver a record: by then each has arrived or has failed (delivery.timeout.ms).
  private val ArrivalTimeoutNs = 150L * 1000 * 1000 * 1000
  /** The largest record that can be sent. */
  private[streamapp] val MaxRequestBytes = 8 << 20
  // One producer per partition and sub-topology: as small as the largest record allows, so that many fit. A producer keeps all the
  // memory that it has ever used, so together they use no more than a share of the heap.
  private val BufferBytes = MaxRequestBytes
  private val HeapShare = 8
  private val LeastWaitingBytes = 1L << 20
  private val KeepMs = 10L * 60 * 1000

  private val transactions = new ConcurrentHashMap[String, TaskTransaction]()

  /** The transaction of the running task, which has this state partition. */
  def ofTask(conf: RuntimeConf, partition: Int): TaskTransaction = of(conf, idOf(conf, TaskPartitions.firstWith(partition)))

  /** The id of the transactions of tasks that have this state partition as their first. */
  def idOf(conf: RuntimeConf, firstPartition: Int): String = s"${conf.subTopology}/$firstPartition"

  /** The transaction of an id in this process. */
  def of(conf: RuntimeConf, id: String): TaskTransaction =
    transactions.compute(s"${conf.applicationId}/$id", (_, found) => {
      val transaction = if (found == null) new TaskTransaction(conf, id) else found
      transaction.usedAtMs = System.currentTimeMillis() // so that it is not closed before the caller has begun
      transaction
    })

  /**
   * Closes and forgets the transactions that no task of this process has used for ten minutes: the partitions have moved, or are
   * silent, or tasks have other partitions together. To be called now and then.
   */
  private[streamapp] def tidy(nowMs: Long): Unit =
    transactions.keySet.forEach { key =>
      transactions.computeIfPresent(key, (_, found) => if (found.closeUnused(nowMs - KeepMs)) null else found)
    }

  /**
   * The most bytes that one producer may hold before Kafka has confirmed them, given the number of producers. Bytes count as they were
   * given, which is more than a batch takes: where there is room for a whole buffer, that alone is the bound.
   */
  private def mostWaitingBytes(conf: RuntimeConf): Long = {
    val share = conf.producersBytes.getOrElse(Runtime.getRuntime.maxMemory / HeapShare) / math.max(1, transactions.size)
    if (share < BufferBytes) share else Long.MaxValue
  }

  /** For tests: the number of transactions that hold a producer. */
  def producers: Int = transactions.values.stream.filter(_.hasProducer).count.toInt

  /** Closes the transactions of an application that is not at work in this process any more. */
  def closeAll(applicationId: String): Unit =
    transactions.entrySet.removeIf { entry =>
      val ours = entry.getKey.startsWith(s"$applicationId/")
      if (ours) entry.getValue.close()
      ours
    }

  def find(conf: RuntimeConf, id: String): Option[TaskTransaction] = Option(transactions.get(s"${conf.applicationId}/$id"))

  def currentAttempt: Long = {
    val context = TaskContext.get()
    if (context == null) throw new IllegalStateException("state and output belong to tasks: no task is running here")
    context.taskAttemptId()
  }
}
