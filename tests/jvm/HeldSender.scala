// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.lang.Thread.State.{TIMED_WAITING, WAITING}
import java.nio.charset.StandardCharsets.UTF_8
import java.util.HashSet

import scala.collection.immutable.AbstractSeq
import scala.jdk.CollectionConverters._

import org.apache.kafka.clients.producer.{KafkaProducer, ProducerConfig, ProducerRecord}
import org.apache.kafka.common.record.{CompressionRatioEstimator, CompressionType}
import org.apache.kafka.common.serialization.ByteArraySerializer

/**
 * Stops the sender thread of a Kafka producer where a commit can overtake records: it has just seen that no record is
 * left to be sent, and has not looked yet whether a commit is asked for. It goes on once the thread that stopped it
 * waits for the producer. On a busy machine the scheduler does the same, once in many thousand transactions.
 */
object HeldSender {

  /** Stops the sender. Returns when it stands still; all that was sent before has arrived. */
  def hold(owner: AnyRef): Unit = {
    val producer = owner match {
      case producer: KafkaProducer[_, _] => producer
      case other => valueOf(other, classOf[KafkaProducer[_, _]].getName).asInstanceOf[KafkaProducer[_, _]]
    }
    producer.flush()
    val batches = valueOf(valueOf(producer, Internals + "RecordAccumulator"), Internals + "IncompleteBatches")
    val look = new Look(Thread.currentThread())
    fieldOf(batches, "java.util.Set").set(batches, look)
    val sender = valueOf(producer, Internals + "Sender")
    sender.getClass.getMethod("wakeup").invoke(sender)
    look.awaitHeld()
  }

  private val Internals = "org.apache.kafka.clients.producer.internals."

  private def fieldOf(owner: AnyRef, typeName: String) = {
    val field = owner.getClass.getDeclaredFields.find(_.getType.getName == typeName).getOrElse(
      throw new NoSuchFieldException(s"${owner.getClass.getName} has no field of type $typeName"))
    field.setAccessible(true)
    field
  }

  private def valueOf(owner: AnyRef, typeName: String): AnyRef = fieldOf(owner, typeName).get(owner)

  /** The producer's set of batches that have not arrived. The producer calls it with the set's lock held; waiting releases the lock. */
  private final class Look(caller: Thread) extends HashSet[AnyRef] {
    private var held = false
    private var spent = false

    override def isEmpty: Boolean = {
      val answer = super.isEmpty
      if (!spent && (Thread.currentThread() ne caller)) {
        spent = true
        held = true
        notifyAll()
        while (!waitsForProducer) wait(1)
        held = false
      }
      answer
    }

    def awaitHeld(): Unit = synchronized { while (!held) wait() }

    private def waitsForProducer: Boolean =
      (caller.getState == WAITING || caller.getState == TIMED_WAITING) && caller.getStackTrace.exists(frame =>
        frame.getClassName == classOf[KafkaProducer[_, _]].getName &&
          (frame.getMethodName == "flush" || frame.getMethodName == "commitTransaction"))
  }

  /** The bytes that a producer keeps for later batches: the most that it has used at one time. */
  def keptBytes(owner: AnyRef): Long = {
    val producer = valueOf(owner, classOf[KafkaProducer[_, _]].getName)
    val pool = valueOf(valueOf(producer, Internals + "RecordAccumulator"), Internals + "BufferPool")
    val free = pool.getClass.getDeclaredField("free")
    free.setAccessible(true)
    free.get(pool).asInstanceOf[java.util.Deque[java.nio.ByteBuffer]].asScala.map(_.capacity.toLong).sum
  }

  /** The compression of a topic's batches that the producers of this process expect: none, after a batch was too large. */
  def expectedCompression(topic: String): Float = CompressionRatioEstimator.estimation(topic, CompressionType.LZ4)
  def expectCompression(topic: String, ratio: Float): Unit =
    CompressionRatioEstimator.setEstimation(topic, CompressionType.LZ4, ratio)

  /** Whether a record arrives that is sent while the sender stands still, when the commit is asked for at once. */
  def arrivesWithoutFlush(settings: java.util.Map[String, String], topic: String): Boolean = {
    val conf = RuntimeConf(settings.asScala.toMap)
    val properties = conf.client(ProducerConfig.TRANSACTIONAL_ID_CONFIG -> s"${conf.applicationId}/bare")
    val producer = new KafkaProducer(properties, new ByteArraySerializer, new ByteArraySerializer)
    def send() = producer.send(new ProducerRecord(topic, 0, Array[Byte](1), Array[Byte](1)))
    try {
      producer.initTransactions()
      producer.beginTransaction()
      send()
      hold(producer)
      val second = send()
      producer.commitTransaction()
      second.isDone
    } finally producer.close(java.time.Duration.ZERO)
  }

  /** Writes files in one transaction, with the sender standing still after the first, and returns those that a later driver finds. */
  def putHeld(settings: java.util.Map[String, String], paths: java.util.List[String]): java.util.List[String] = {
    val conf = RuntimeConf(settings.asScala.toMap)
    def opened[Result](use: MetadataTopic => Result): Result =
      try use(MetadataTopic.open(conf, "local/held", None)) finally MetadataTopic.close(conf.applicationId)
    opened { topic =>
      val files = paths.asScala.toIndexedSeq.map(_ -> "x".getBytes(UTF_8))
      topic.put(new HookedSeq(files, () => hold(topic)))
    }
    opened(topic => paths.asScala.filter(path => topic.get(path).isDefined).asJava)
  }

  /** Does something before its second element is given away for the first time. */
  private final class HookedSeq[Element](elements: IndexedSeq[Element], hook: () => Unit) extends AbstractSeq[Element] {
    private var spent = false
    override def length: Int = elements.length
    override def apply(index: Int): Element = {
      if (index == 1 && !spent) {
        spent = true
        hook()
      }
      elements(index)
    }
    override def iterator: Iterator[Element] = elements.indices.iterator.map(apply)
  }
}
