// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.Collections
import java.util.concurrent.TimeUnit.SECONDS

import scala.util.Try

import org.apache.kafka.clients.admin.Admin
import org.apache.kafka.common.config.{ConfigResource, TopicConfig}
import org.apache.kafka.common.errors.RecordTooLargeException

/** A record is larger than its topic, or a producer of ours, takes: trying again cannot help. */
final class OversizedRecordException(message: String, cause: Throwable) extends RuntimeException(message, cause)

/**
 * Why a record was not taken.
 *
 * @param size of its key and value, in bytes
 */
private[streamapp] final class SendError(cause: Exception, topic: String, size: Int) {
  import SendError._

  /** The error with what a user must know. Kafka's own words about a record that is too large name no topic. */
  def inFull(conf: RuntimeConf): Exception = cause match {
    case _: RecordTooLargeException => new OversizedRecordException(oversized(conf), cause)
    case other => other
  }

  private def oversized(conf: RuntimeConf): String = {
    val record = s"a record for topic '$topic' has $size bytes"
    val limit = limitOf(conf)
    if (size >= TaskTransaction.MaxRequestBytes - Overhead) {
      s"$record, and ${TaskTransaction.MaxRequestBytes} are the most that can be sent: make it smaller"
    } else {
      s"$record, and the topic takes ${limit.getOrElse("less")}, compressed: raise max.message.bytes of the " +
        s"topic (kafka-configs --alter --entity-type topics --entity-name $topic --add-config max.message.bytes=" +
        s"${math.min(2L * size, TaskTransaction.MaxRequestBytes)}), or make it smaller"
    }
  }

  private def limitOf(conf: RuntimeConf): Option[String] = Try {
    val resource = new ConfigResource(ConfigResource.Type.TOPIC, topic)
    val admin = Admin.create(conf.client())
    try admin.describeConfigs(Collections.singleton(resource)).values.get(resource).get(AnswerSeconds, SECONDS)
      .get(TopicConfig.MAX_MESSAGE_BYTES_CONFIG).value
    finally admin.close()
  }.toOption
}

private object SendError {
  private val AnswerSeconds = 5L
  /** What Kafka adds to key and value of a record, at the most. */
  private val Overhead = 1024
}
