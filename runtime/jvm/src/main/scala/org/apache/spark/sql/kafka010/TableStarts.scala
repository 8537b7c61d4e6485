// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.kafka.common.TopicPartition

import org.apache.spark.sql.streamapp.{EpochRanges, MetadataTopic, RuntimeConf}

/**
 * How far a table has to be read before the records of streams look its rows up: to the end that its topic had when the
 * table was first read.
 *
 * @param ends the end of each partition at that time
 * @param from the offsets at which reading begins
 */
private[kafka010] final class TableStart(ends: Map[TopicPartition, Long], from: Map[TopicPartition, Long]) {
  @volatile private var position = from

  /** Notes the end of an epoch that is about to run; the next one is cut when it is over. */
  def readTo(offsets: Map[TopicPartition, Long]): Unit = position ++= offsets

  def reached: Boolean = ends.forall { case (partition, end) => position.getOrElse(partition, 0L) >= end }
}

/** The tables that the running queries read, on the driver. */
private[sql] object TableStarts {
  private val starts = new ConcurrentHashMap[(String, Int), TableStart]()

  /**
   * Starts to read a table. The end that its topic has at the first start is noted: a later start waits for no more.
   *
   * @param number the number of the source, as in the offset log
   */
  private[kafka010] def add(conf: RuntimeConf, subTopology: String, number: Int, topic: KafkaOffsetReader): TableStart = {
    val metadata = MetadataTopic.current(conf.applicationId)
    val path = s"/${conf.applicationId}/$subTopology/table-$number"
    val ends = metadata.get(path).map(file => JsonUtils.partitionOffsets(new String(file.bytes, UTF_8))).getOrElse {
      val now = topic.fetchLatestOffsets(None)
      metadata.put(Seq(path -> JsonUtils.partitionOffsets(now).getBytes(UTF_8)))
      now
    }
    val start = new TableStart(ends, topic.fetchEarliestOffsets() ++ PlannedEnds.of(conf, number))
    starts.put((subTopology, number), start)
    start
  }

  /** Whether all tables of the sub-topology are there. */
  def reached(subTopology: String): Boolean =
    starts.asScala.forall { case ((sub, _), start) => sub != subTopology || start.reached }

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
