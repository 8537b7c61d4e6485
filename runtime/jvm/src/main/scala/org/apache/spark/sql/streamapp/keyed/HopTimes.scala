// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.kafka.common.TopicPartition

import org.apache.spark.sql.kafka010.PartitionOffsets
import org.apache.spark.sql.streamapp.{MetadataTopic, RuntimeConf}

/**
 * The time that the writer of an internal topic (a hop) has reached, for the readers of the topic; on the driver.
 *
 * A hop mixes the records of all partitions before it, so the event times in it do not say what is still to come. The windows that
 * its writer had closed at the end of an epoch are closed for a reader too, once it has read all that this epoch has written.
 */
object HopTimes {
  /** The time of a writer that need not be waited for. */
  val NotAwaited: Long = Long.MaxValue

  /** The most epochs of a writer that are remembered for a reader that is behind. */
  private val Most = 500

  /**
   * The end of an epoch of the writer.
   *
   * @param ends the end offsets of the topic's partitions, behind the records of this and all earlier epochs
   * @param inThisRun whether this driver has seen it end
   */
  private final case class Ended(closed: Long, ends: Map[Int, Long], inThisRun: Boolean) {
    def isRead(read: Map[Int, Long]): Boolean = ends.forall { case (partition, end) => read.getOrElse(partition, 0L) >= end }
  }

  /** @param epochs the latest first; of several with the same closed time, the earliest alone */
  private final case class Written(epochs: List[Ended], latest: Map[Int, Long])

  private val topics = new ConcurrentHashMap[(String, String), Written]()
  private val clients = new ConcurrentHashMap[String, PartitionOffsets]()

  /**
   * Notes the end of an epoch of a writer.
   *
   * @param hops the topics whose readers go by time
   * @param wrote whether the epoch may have written to one
   */
  def ended(conf: RuntimeConf, hops: Seq[String], closed: Long, wrote: Boolean): Unit = {
    val known = hops.flatMap(topic => Option(topics.get((conf.applicationId, topic))).map(topic -> _.latest)).toMap
    val ends = if (wrote || known.size < hops.size) endsOf(conf, hops) else known
    hops.foreach(topic => add(conf, topic, Ended(closed, ends(topic), inThisRun = true)))
  }

  /** Starts a reader, with the closed time that the writer had noted when its run ended. */
  def begin(conf: RuntimeConf, writer: String, topic: String): Unit =
    for (file <- MetadataTopic.current(conf.applicationId).get(StreamTimes.path(conf.applicationId, writer))) {
      val closed = StreamTimes.read(file.bytes).closed
      if (!topics.containsKey((conf.applicationId, topic)))
        add(conf, topic, Ended(closed, endsOf(conf, Seq(topic))(topic), inThisRun = false))
    }

  private def add(conf: RuntimeConf, topic: String, epoch: Ended): Unit =
    topics.merge((conf.applicationId, topic), Written(List(epoch), epoch.ends), (before, _) => before.epochs match {
      case last :: _ if epoch.closed < last.closed || (epoch.closed == last.closed && last.inThisRun == epoch.inThisRun) =>
        before.copy(latest = epoch.ends)
      case last :: earlier if earlier.length + 1 >= Most => Written(epoch :: earlier, epoch.ends)
      case all => Written(epoch :: all, epoch.ends)
    })

  // An epoch begins after the end of the one before, so the records in the topics now are of no later epoch.
  private def endsOf(conf: RuntimeConf, hops: Seq[String]): Map[String, Map[Int, Long]] = {
    val partitions = for (topic <- hops; partition <- 0 until conf.maxParallelism) yield new TopicPartition(topic, partition)
    clients.computeIfAbsent(conf.applicationId, _ => new PartitionOffsets(conf)).ends(partitions.toSet)
      .groupMap(_._1.topic) { case (at, end) => at.partition -> end }.map { case (topic, ends) => topic -> ends.toMap }
  }

  /**
   * The time that the writer has reached, for a reader that has read the topic so far. [[StreamTimes.Unknown]] before the writer's first epoch.
   *
   * @param writer the sub-topology that writes it
   * @param bounded whether this is a run to the end, in which writers have ended before their readers start
   * @param silent whether nothing of the topic is read in such a run
   */
  def closed(applicationId: String, writer: String, topic: String, read: Map[Int, Long], bounded: Boolean, silent: Boolean): Long = {
    val written = Option(topics.get((applicationId, topic)))
    val last = written.flatMap(_.epochs.find(_.isRead(read)))
    if (bounded) last.filter(_.inThisRun || !silent).map(_.closed).getOrElse(if (silent) NotAwaited else StreamTimes.Unknown)
    else {
      val readAll = written.forall(hop => Ended(0, hop.latest, inThisRun = true).isRead(read))
      val now = if (readAll) EpochTimes.reached(applicationId, writer) else None
      (now ++ last.map(_.closed)).maxOption.getOrElse(StreamTimes.Unknown)
    }
  }

  def clear(applicationId: String): Unit = {
    topics.keySet.asScala.toSeq.filter(_._1 == applicationId).foreach(topics.remove)
    Option(clients.remove(applicationId)).foreach(_.close())
  }
}
