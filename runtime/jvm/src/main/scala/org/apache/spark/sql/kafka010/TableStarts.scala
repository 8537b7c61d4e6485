// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.apache.kafka.common.TopicPartition

import org.apache.spark.sql.streamapp.{EpochRanges, MetadataTopic, RuntimeConf}

/**
 * How far a table has to be read before the records of streams look its rows up: to the end that its topic had when the
 * table was first read. An internal topic with a table's rows has its end when all tables that they are made of were read so far.
 *
 * @param ends the end of each partition at that time; None as long as it is not known
 * @param from the offsets at which reading begins
 * @param ofUser whether it is a topic of the user's
 * @param isLookedUp whether its rows are looked up where they are read; else they go on to another sub-topology
 * @param note notes that a later start waits for nothing
 */
private[kafka010] final class TableStart(ends: () => Option[Map[TopicPartition, Long]], from: Map[TopicPartition, Long],
    val ofUser: Boolean, val isLookedUp: Boolean, note: () => Unit) {
  private val known = new OnceKnown(ends)
  @volatile private var planned = from
  @volatile private var latest = Option.empty[Map[TopicPartition, Long]]
  @volatile private var over = false

  /** Notes the end of an epoch that is about to run; the next one is cut when it is over. */
  def readTo(offsets: Map[TopicPartition, Long]): Unit = planned ++= offsets

  /** Notes that all epochs up to these offsets are over, and where the topic ends now. */
  def goesOnAt(offsets: Map[TopicPartition, Long], end: Map[TopicPartition, Long]): Unit = {
    latest = Some(end)
    if (!over && isAt(offsets)) {
      over = true
      note()
    }
  }

  /** Whether the end is known. */
  def isBounded: Boolean = over || known.get.isDefined

  /** Whether its query has read it so far, when the next epoch is cut. */
  def reached: Boolean = over || isAt(planned)

  /** Whether its rows have gone on into the topics that its query writes. */
  def isOver: Boolean = over

  private def isAt(position: Map[TopicPartition, Long]): Boolean = known.get.exists(_.forall { case (partition, end) =>
    // A topic that was made anew may never be as long as it was, or have as many partitions. Of an internal topic, transactions may be
    // open that have to be waited for.
    val there = latest.filter(now => ofUser && now.nonEmpty).fold(end)(now => math.min(end, now.getOrElse(partition, 0L)))
    position.getOrElse(partition, 0L) >= there
  })
}

/** Asks until there is an answer, which it keeps. */
private final class OnceKnown[A](ask: () => Option[A]) {
  private var answer: Option[A] = None

  def get: Option[A] = synchronized {
    if (answer.isEmpty) answer = ask()
    answer
  }
}

/** The tables that the running queries read, on the driver. */
private[sql] object TableStarts {
  /** A source, by the number that the offset log has for it. */
  private[kafka010] final case class Source(subTopology: String, number: Int)

  /** How long to wait before looking again for tables of other sub-topologies, in milliseconds. */
  private[kafka010] val LookMs = 100L

  private val starts = new ConcurrentHashMap[Source, TableStart]()

  /**
   * Starts to read a table. The end that its topic has at the first start is noted: a later start waits for no more.
   *
   * @param behind the tables of other sub-topologies that its rows are made of; empty for a topic of the user's
   */
  private[kafka010] def add(conf: RuntimeConf, source: Source, topic: KafkaOffsetReader, behind: Seq[Source],
      isLookedUp: Boolean): TableStart = {
    val metadata = MetadataTopic.current(conf.applicationId)
    val path = s"/${conf.applicationId}/${source.subTopology}/table-${source.number}"
    def noted = metadata.get(path).map(file => JsonUtils.partitionOffsets(new String(file.bytes, UTF_8)))
    def bytes(ends: Map[TopicPartition, Long]) = JsonUtils.partitionOffsets(ends).getBytes(UTF_8)
    def note(now: Map[TopicPartition, Long]) = {
      metadata.put(Seq(path -> bytes(now)))
      now
    }
    val first = topic.fetchEarliestOffsets()
    val ends: () => Option[Map[TopicPartition, Long]] = noted match {
      case None if behind.nonEmpty =>
        // Kafka ends a transaction behind its answer to the commit, so what is still open counts.
        () => Option.when(behind.forall(isOver))(note(Using.resource(new PartitionOffsets(conf))(_.ends(first.keySet))))
      case known =>
        val there = Some(known.getOrElse(note(topic.fetchLatestOffsets(None))))
        () => there
    }
    val start = new TableStart(ends, first ++ PlannedEnds.of(conf, source.number), behind.isEmpty, isLookedUp, () =>
      if (noted.exists(_.nonEmpty)) metadata.defer(Seq(path -> bytes(Map.empty))))
    starts.put(source, start)
    start
  }

  /** Reads `SUBTOPOLOGY/NUMBER,…`. */
  private[kafka010] def sources(text: String): Seq[Source] = text.split(',').toSeq.filter(_.nonEmpty).map { one =>
    val at = one.lastIndexOf('/')
    Source(one.take(at), one.drop(at + 1).toInt)
  }

  private def isOver(source: Source): Boolean = Option(starts.get(source)).exists(_.isOver)

  /** Whether all tables are there that are looked up in the sub-topology. */
  def reached(subTopology: String): Boolean = of(subTopology).filter(_.isLookedUp).forall(_.reached)

  /** Whether those are there that it reads from topics of the user's. */
  def userTablesReached(subTopology: String): Boolean = of(subTopology).filter(_.ofUser).forall(_.reached)

  private def of(subTopology: String) = starts.asScala.collect { case (Source(`subTopology`, _), start) => start }

  def clear(): Unit = starts.clear()
}

/** The end of the epoch that was planned last, which an earlier run may not have ended. */
private[kafka010] object PlannedEnds {
  /** @param source its number; the result is empty where no epoch has read it */
  def of(conf: RuntimeConf, source: Int): Map[TopicPartition, Long] = {
    val metadata = MetadataTopic.current(conf.applicationId)
    val ends = EpochRanges.lastPlanned(metadata, conf).flatMap(EpochRanges.ends(metadata, conf, _)).getOrElse(Nil)
    ends.filter(_.source == source).map(end => new TopicPartition(end.topic, end.partition) -> end.offset).toMap
  }
}
