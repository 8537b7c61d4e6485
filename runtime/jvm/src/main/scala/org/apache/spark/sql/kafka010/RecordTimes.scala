// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import scala.jdk.CollectionConverters._

import org.apache.kafka.clients.admin.{Admin, OffsetSpec}
import org.apache.kafka.common.TopicPartition

import org.apache.spark.sql.streamapp.RuntimeConf

/** Where records are, by their timestamps. */
private[kafka010] final class RecordTimes(conf: RuntimeConf) extends AutoCloseable {
  private lazy val admin = Admin.create(conf.client())
  private var used = false

  /**
   * The first record of each partition that has this timestamp, in milliseconds, or a later one.
   *
   * Throws ExecutionException when Kafka gives no answer.
   */
  def at(partitions: Set[TopicPartition], time: Long): Map[TopicPartition, Place] = {
    used = true
    val asked = admin.listOffsets(partitions.map(_ -> OffsetSpec.forTimestamp(time)).toMap.asJava)
    partitions.map { partition =>
      val found = asked.partitionResult(partition).get()
      partition -> (if (found.offset < 0) Place.End else Place(found.offset, found.timestamp))
    }.toMap
  }

  override def close(): Unit = if (used) admin.close()
}
