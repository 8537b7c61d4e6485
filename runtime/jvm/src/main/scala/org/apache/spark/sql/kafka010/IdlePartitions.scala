// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.kafka.clients.admin.{Admin, ListOffsetsOptions, OffsetSpec}
import org.apache.kafka.common.{IsolationLevel, TopicPartition}

import org.apache.spark.sql.streamapp.RuntimeConf
import org.apache.spark.sql.streamapp.keyed.{HopTimes, Idleness, StreamTimes, TimedSources}

/**
 * Which partitions of a source windows do not wait for: those that are empty, and those that have been silent for a time
 * although all that is in them was read. In a run to the end: those of which it reads nothing. And those whose turn has not
 * come in a backlog: what is next in them is later than what is closed.
 *
 * @param tag the source's
 * @param timeoutMs for how long a silent partition is waited for, counted from its last record or this object's making
 * @param closeAtEnd whether a run to the end closes the windows that are open there
 * @param hop of an internal topic: its writer
 */
private[kafka010] final class IdlePartitions(val tag: String, timeoutMs: Long, val closeAtEnd: Boolean, ends: PartitionEnds,
    hop: Option[HopWriter])
  extends AutoCloseable {
  private val since = mutable.Map.empty[TopicPartition, Long]
  private var begun: Option[Map[TopicPartition, Long]] = None
  private var known = Set.empty[TopicPartition]
  private var asked = Map.empty[TopicPartition, Long]
  private var askedAt = 0L
  @volatile private var idleness = Idleness(Set.empty, None, over = false)

  /** As it is for the epoch which is being cut. */
  def now: Idleness = idleness

  /**
   * An epoch is being cut.
   *
   * @param latest what could be read at all
   * @param later partitions whose next record is of a later time than all that this epoch reads
   */
  def look(start: Map[TopicPartition, Long], end: Map[TopicPartition, Long], latest: Map[TopicPartition, Long],
      later: Set[TopicPartition], boundedRun: Boolean): Unit = {
    val now = System.nanoTime()
    // Without a start these are all new: their first epoch reads them from their first record on.
    val silent = end.collect { case (partition, offset) if start.get(partition).contains(offset) => partition }.toSet
    end.keys.filterNot(silent).foreach(since(_) = now)
    silent.foreach(since.getOrElseUpdate(_, now))
    since.filterInPlace((partition, _) => end.contains(partition))
    val found =
      if (boundedRun) {
        val from = begun.getOrElse(start)
        begun = Some(from)
        silent.filter(partition => from.get(partition) == latest.get(partition))
      } else caughtUp(silent, end, now)
    val passed = found ++ later
    val keys =
      if (passed == known) idleness.partitions
      else passed.map(partition => TimedSources.key(tag, partition.topic, partition.partition))
    known = passed
    val all = !boundedRun && found.size == end.size && since.nonEmpty
    idleness = Idleness(keys,
      Option.when(all)(math.max(0L, NANOSECONDS.toMicros(now - since.values.max) - timeoutMs * 1000)),
      over = boundedRun && closeAtEnd && silent.size == end.size && end == latest,
      hops = hop.map(writer => tag -> writer.closed(end, boundedRun, silent = found.size == end.size)).toMap)
  }

  private def caughtUp(silent: Set[TopicPartition], end: Map[TopicPartition, Long], now: Long): Set[TopicPartition] = {
    val long = silent.filter(partition => now - since(partition) >= MILLISECONDS.toNanos(timeoutMs))
    val candidates = long ++ silent.filter(partition => end(partition) == 0)
    // Idle ones are asked about again once a second: a transaction may have begun to hold them back.
    if (candidates.exists(partition => !asked.contains(partition)) || now - askedAt > MILLISECONDS.toNanos(1000)) {
      asked = if (candidates.isEmpty) Map.empty else ends.of(candidates)
      askedAt = now
    }
    candidates.filter(partition => asked.get(partition).contains(end(partition)))
  }

  override def close(): Unit = ends.close()
}

/**
 * The sub-topology that writes a hop.
 *
 * @param lagUs how much later than their event time its records may be written, by what is closed there
 */
private[kafka010] final case class HopWriter(applicationId: String, name: String, topic: String, lagUs: Long) {
  /** How far time had come for who has read the topic so far: no record behind that has an earlier event time. */
  def closed(read: Map[TopicPartition, Long], boundedRun: Boolean, silent: Boolean): Long =
    HopTimes.closed(applicationId, name, topic, read.map { case (at, end) => at.partition -> end }, boundedRun, silent) match {
      case time @ (HopTimes.NotAwaited | StreamTimes.Unknown) => time
      case time => time - lagUs
    }
}

/** Where partitions end, with what transactions have written that are still open. */
private[sql] final class PartitionEnds(conf: RuntimeConf) extends AutoCloseable {
  private var admin: Option[Admin] = None

  def of(partitions: Set[TopicPartition]): Map[TopicPartition, Long] = {
    val client = admin.getOrElse(Admin.create(conf.client()))
    admin = Some(client)
    val answer = client.listOffsets(partitions.map(_ -> OffsetSpec.latest()).toMap.asJava,
      new ListOffsetsOptions(IsolationLevel.READ_UNCOMMITTED))
    partitions.map(partition => partition -> answer.partitionResult(partition).get().offset).toMap
  }

  override def close(): Unit = admin.foreach(_.close())
}
