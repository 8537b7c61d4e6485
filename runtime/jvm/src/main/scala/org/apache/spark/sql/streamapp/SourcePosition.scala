// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import org.apache.kafka.clients.producer.ProducerRecord
import org.apache.kafka.common.TopicPartition
import org.apache.kafka.common.utils.Utils.{murmur2, toPositive}

/**
 * How far a sub-topology without state has come in one source partition, kept on the compacted topic
 * `APP-position` under the key `SUBTOPOLOGY/TOPIC/PARTITION` and written in the transaction of the output.
 *
 * An epoch's range `[from, until)` comes from Spark's offset log and is the same in every replay, so the position alone
 * decides: at `from` the range is still to be done, at `until` it is done with all its effects.
 */
final class SourcePosition private (private val conf: RuntimeConf, val source: TopicPartition, partitions: Int)
    extends TransactionParticipant {
  import SourcePosition.Nothing

  val transactionId: String = SourcePosition.transactionId(conf, source)
  private val key = transactionId.getBytes(UTF_8)
  private val home = new TopicPartition(conf.positionTopic, toPositive(murmur2(key)) % partitions)

  // The position that this process read or committed last.
  private var known: Option[Long] = None
  private var knownBy = ""

  /**
   * Takes the transaction for this task attempt and decides whether the range is still to be done.
   *
   * @param run the id of the query's run; a new run has fenced all (see [[SourcePosition.settle]]), and trusts nothing
   * @throws IllegalStateException when the position is neither at the range's start nor at its end
   */
  def begin(transaction: TaskTransaction, epoch: Long, from: Long, until: Long, run: String): Unit = {
    transaction.begin(epoch, this)
    // The position known in this process is good only if nobody else can have committed since.
    val remembered = known.filter(position => knownBy == run && transaction.live && (position == from || position == until))
    val position = remembered.getOrElse(readFenced(transaction))
    known = Some(position)
    knownBy = run
    if (position == until) transaction.markAlreadyDone(source.partition)
    else if (position != Nothing && position != from) {
      throw new PositionMismatchException(
        s"sub-topology '${conf.subTopology}': $source is committed up to offset $position, " +
          s"but epoch $epoch covers [$from, $until): the position on ${home.topic} and the epoch log disagree")
    }
  }

  private def readFenced(transaction: TaskTransaction): Long = {
    transaction.fence()
    var position = Nothing
    // Other sources have positions in the same partition: ours may be committed behind one of theirs that is still open.
    TopicReader.readToEnd(conf, home, None, throughOpen = true) { record =>
      if (java.util.Arrays.equals(record.key, key)) position = ByteBuffer.wrap(record.value).getLong
    }
    position
  }

  def mark(transaction: TaskTransaction, until: Long): Unit =
    transaction.mark(source.partition, this, until,
      new ProducerRecord(home.topic, home.partition, key, ByteBuffer.allocate(8).putLong(until).array))

  override def confirmed(version: Long, nextOffset: Long): Unit = known = Some(version)
}

object SourcePosition {
  /** The position before the first commit. */
  private val Nothing = -1L
  private val TidyMs = 60L * 1000
  private val tidiedAtMs = new AtomicLong(System.currentTimeMillis())

  /** Takes the ids of these sources from a former run. */
  def settle(conf: RuntimeConf, sources: Iterable[TopicPartition]): Unit =
    TransactionalIds.settle(conf, sources.map(transactionId(conf, _)))

  private def transactionId(conf: RuntimeConf, source: TopicPartition): String =
    s"${conf.subTopology}/${source.topic}/${source.partition}"

  private val positions = new ConcurrentHashMap[String, SourcePosition]()

  def of(conf: RuntimeConf, source: TopicPartition, partitions: Int): SourcePosition =
    positions.computeIfAbsent(s"${conf.applicationId}/${transactionId(conf, source)}",
      _ => new SourcePosition(conf, source, partitions))

  /** Forgets the positions, and closes the producers, of partitions that have gone elsewhere; at most once a minute. */
  def tidy(): Unit = {
    val now = System.currentTimeMillis()
    val before = tidiedAtMs.get
    if (now - before > TidyMs && tidiedAtMs.compareAndSet(before, now)) tidyAt(now)
  }

  // A position that a task still holds while it is forgotten here is read again by the next one.
  def tidyAt(nowMs: Long): Unit = {
    TaskTransaction.tidy(nowMs)
    positions.values.removeIf(position => TaskTransaction.find(position.conf, position.transactionId).isEmpty)
  }

  /** Forgets the positions of an application that is not at work in this process any more. */
  def closeAll(applicationId: String): Unit = positions.values.removeIf(_.conf.applicationId == applicationId)

  /** For tests: the number of positions. */
  def count: Int = positions.size
}
