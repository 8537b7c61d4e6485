// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS}

import scala.collection.mutable

import org.apache.kafka.common.TopicPartition

import org.apache.spark.sql.streamapp.keyed.{HopTimes, Idleness, StreamTimes, TimedSources}

/**
 * The partitions of a source that windows do not wait for: those that are empty, and those that have been silent for a time
 * although all their records were read. In a run to the end: those from which it reads nothing. Also those whose turn has not
 * come in a backlog: their next record is later than the closed time.
 *
 * @param tag the source's tag
 * @param timeoutMs how long a silent partition is waited for, counted from its last record or this object's making
 * @param closeAtEnd whether a run to the end closes the windows that are open there
 * @param hop the writer of the source, if that is an internal topic
 */
private[kafka010] final class IdlePartitions(val tag: String, timeoutMs: Long, val closeAtEnd: Boolean, offsets: PartitionOffsets,
    hop: Option[HopWriter])
  extends AutoCloseable {
  private val since = mutable.Map.empty[TopicPartition, Long]
  private var begun: Option[Map[TopicPartition, Long]] = None
  private var known = Set.empty[TopicPartition]
  private var asked = Map.empty[TopicPartition, Long]
  private var askedAt = 0L
  @volatile private var idleness = Idleness(Set.empty, None, over = false)

  /** The idleness for the epoch that is being cut. */
  def now: Idleness = idleness

  /**
   * Finds the idle partitions for an epoch that is being cut.
   *
   * @param latest the offsets up to which there are records
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
    // Idle partitions are checked again once a second: a transaction may have begun to hold them back.
    if (candidates.exists(partition => !asked.contains(partition)) || now - askedAt > MILLISECONDS.toNanos(1000)) {
      asked = if (candidates.isEmpty) Map.empty else offsets.ends(candidates)
      askedAt = now
    }
    candidates.filter(partition => asked.get(partition).contains(end(partition)))
  }

  override def close(): Unit = offsets.close()
}

/**
 * The sub-topology that writes a hop.
 *
 * @param lagUs how much later than their event time its records may be written, by the closed time there
 */
private[kafka010] final case class HopWriter(applicationId: String, name: String, topic: String, lagUs: Long) {
  /** The time that the writer has reached, for a reader that has read the topic so far: no later record has an earlier event time. */
  def closed(read: Map[TopicPartition, Long], boundedRun: Boolean, silent: Boolean): Long =
    HopTimes.closed(applicationId, name, topic, read.map { case (at, end) => at.partition -> end }, boundedRun, silent) match {
      case time @ (HopTimes.NotAwaited | StreamTimes.Unknown) => time
      case time => time - lagUs
    }
}
