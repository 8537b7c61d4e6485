// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import scala.jdk.CollectionConverters._

import org.apache.kafka.clients.admin.{Admin, ListOffsetsOptions, ListOffsetsResult, OffsetSpec}
import org.apache.kafka.common.{IsolationLevel, TopicPartition}

import org.apache.spark.sql.streamapp.RuntimeConf

/** Asks Kafka for offsets of partitions. Each question throws ExecutionException when Kafka gives no answer. */
private[sql] final class PartitionOffsets(conf: RuntimeConf) extends AutoCloseable {
  private var admin: Option[Admin] = None

  /** The ends of partitions, with the records of transactions that are still open. */
  def ends(partitions: Set[TopicPartition]): Map[TopicPartition, Long] = ask(partitions, OffsetSpec.latest())(_.offset)

  /** The first record of each partition that has this timestamp, in milliseconds, or a later one. */
  private[kafka010] def at(partitions: Set[TopicPartition], time: Long): Map[TopicPartition, Place] =
    ask(partitions, OffsetSpec.forTimestamp(time)) { found =>
      if (found.offset < 0) Place.End else Place(found.offset, found.timestamp)
    }

  private def ask[A](partitions: Set[TopicPartition], spec: OffsetSpec)(
      read: ListOffsetsResult.ListOffsetsResultInfo => A): Map[TopicPartition, A] = {
    val client = admin.getOrElse(Admin.create(conf.client()))
    admin = Some(client)
    val answer = client.listOffsets(partitions.map(_ -> spec).toMap.asJava, new ListOffsetsOptions(IsolationLevel.READ_UNCOMMITTED))
    partitions.map(partition => partition -> read(answer.partitionResult(partition).get())).toMap
  }

  override def close(): Unit = admin.foreach(_.close())
}
