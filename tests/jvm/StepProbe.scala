// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import java.util.{List => JList}

import scala.jdk.CollectionConverters._

import org.apache.kafka.common.TopicPartition

/** Cuts epochs of a backlog, as sources do that read nothing. */
object StepProbe {
  /**
   * @param sources the partitions of each source: the timestamps of their records; that of the end of a transaction is negative
   * @param byTime  which of the sources have no other event times
   * @return for each epoch how often it was asked for places and for single records, and for each partition the end and 1 where its turn is later
   */
  def run(sources: JList[JList[JList[Long]]], byTime: JList[Boolean], most: Long): JList[JList[Long]] = {
    val times = sources.asScala.zipWithIndex.flatMap { case (partitions, source) =>
      partitions.asScala.zipWithIndex.map { case (records, number) => new TopicPartition(s"$source", number) -> records.asScala.toArray }
    }.toMap
    var (looks, reads) = (0L, 0L)
    object Simulated extends Log {
      override def at(partitions: Set[TopicPartition], time: Long): Map[TopicPartition, Place] = {
        looks += 1
        partitions.map(partition => partition -> (times(partition).indexWhere(_.abs >= time) match {
          case -1 => Place.End
          case first => Place(first, times(partition)(first).abs)
        })).toMap
      }
      override def first(partition: TopicPartition, offset: Long, until: Long): Option[Place] = {
        reads += 1
        val found = times(partition).indexWhere(_ >= 0, offset.toInt)
        Option.when(found >= 0 && found < until)(Place(found, times(partition)(found)))
      }
    }
    val search = new StepSearch(new TimeIndex(Simulated).at)
    val latest = times.map { case (partition, records) => partition -> records.length.toLong }
    def of(source: Int, ends: Map[TopicPartition, Long]) = ends.filter(_._1.topic == s"$source")
    val order = latest.keys.toSeq.sortBy(partition => (partition.topic, partition.partition))
    Iterator.unfold(latest.map(_._1 -> 0L)) { start =>
      Option.when(start != latest) {
        looks = 0
        reads = 0
        val waiting = sources.asScala.indices.map(source => Waiting(of(source, start), of(source, latest), byTime.get(source)))
        val step = search.next(waiting, most)
        val cuts = waiting.map(source => step.cut(source, most).getOrElse(Cut(source.latest, Set.empty)))
        val ends = start ++ cuts.flatMap(_.ends)
        (looks +: reads +: order.flatMap(at => Seq(ends(at), if (cuts.exists(_.later(at))) 1L else 0L)), ends)
      }
    }.take(10000).map(_.map(Long.box).asJava.asInstanceOf[JList[Long]]).toSeq.asJava
  }
}
