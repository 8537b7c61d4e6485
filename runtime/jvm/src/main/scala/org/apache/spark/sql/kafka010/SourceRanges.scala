// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import org.apache.kafka.common.TopicPartition

import org.apache.spark.{NarrowDependency, Partition}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.execution.datasources.v2.DataSourceRDDPartition

/**
 * The offsets that one task answers for: `[from, until)` of one source partition. Where a topic was made anew, `until`
 * may lie before `from`.
 */
final case class SourceRange(source: TopicPartition, from: Long, until: Long)

object SourceRanges {

  /**
   * The Kafka range behind each partition of a plan without shuffle. Spark drops empty ranges and a task's index
   * then shifts from epoch to epoch, so only the source partition itself can name a task's work.
   *
   * @throws IllegalStateException if a partition does not come from exactly one Kafka range
   */
  def of(rdd: RDD[_]): Array[SourceRange] = rdd.partitions.map { partition =>
    find(rdd, partition) match {
      case Seq(range) => range
      case other => throw new IllegalStateException(
        s"partition ${partition.index} reads ${other.size} Kafka ranges, expected one (a shuffle in a stateless part?)")
    }
  }

  private def find(rdd: RDD[_], partition: Partition): Seq[SourceRange] = partition match {
    case leaf: DataSourceRDDPartition => leaf.inputPartition.toSeq.flatMap {
      case kafka: KafkaBatchInputPartition =>
        Some(SourceRange(kafka.offsetRange.topicPartition, kafka.offsetRange.fromOffset, kafka.offsetRange.untilOffset))
      case several: KafkaRanges => several.accountsFor
      case other => throw new IllegalStateException(s"not a Kafka source: ${other.getClass.getName}")
    }
    case _ => rdd.dependencies.flatMap {
      case narrow: NarrowDependency[_] =>
        narrow.getParents(partition.index).flatMap(index => find(narrow.rdd, narrow.rdd.partitions(index)))
      case other => throw new IllegalStateException(s"a stateless part has a shuffle: ${other.getClass.getSimpleName}")
    }
  }
}
