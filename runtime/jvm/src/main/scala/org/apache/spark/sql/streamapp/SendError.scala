// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.time.Instant
import java.util.Collections
import java.util.concurrent.TimeUnit.SECONDS

import scala.util.Try

import org.apache.kafka.clients.admin.Admin
import org.apache.kafka.common.config.{ConfigResource, TopicConfig}
import org.apache.kafka.common.errors.{InvalidTimestampException, RecordTooLargeException}

/** A record is larger than its topic, or a producer of ours, allows: trying again cannot help. */
final class OversizedRecordException(message: String, cause: Throwable) extends RuntimeException(message, cause)

/** A topic does not accept records of that time: trying again cannot help. */
final class RefusedTimeException(message: String, cause: Throwable) extends RuntimeException(message, cause)

/**
 * The reason why a record was not accepted.
 *
 * @param size the size of its key and value, in bytes
 * @param timestampMs null where the producer sets it
 */
private[streamapp] final class SendError(cause: Exception, topic: String, size: Int, timestampMs: java.lang.Long) {
  import SendError._

  /** The error with the facts that a user needs. Kafka's own words name no topic, no limit and no record. */
  def inFull(conf: RuntimeConf): Exception = cause match {
    case _: RecordTooLargeException => new OversizedRecordException(oversized(conf), cause)
    case _: InvalidTimestampException => new RefusedTimeException(refusedTime(conf), cause)
    case other => other
  }

  private def oversized(conf: RuntimeConf): String = {
    val record = s"a record for topic '$topic' has $size bytes"
    if (size >= TaskTransaction.MaxRequestBytes - Overhead) {
      s"$record, and ${TaskTransaction.MaxRequestBytes} are the most that can be sent: make it smaller"
    } else {
      val limit = limitOf(conf, TopicConfig.MAX_MESSAGE_BYTES_CONFIG).getOrElse("less")
      val most = math.min(2L * size, TaskTransaction.MaxRequestBytes)
      s"$record, and the topic takes $limit, compressed: raise max.message.bytes of the topic " +
        s"(${altered(TopicConfig.MAX_MESSAGE_BYTES_CONFIG, most)}), or make it smaller"
    }
  }

  private def refusedTime(conf: RuntimeConf): String = {
    val time = Option(timestampMs).map(Instant.ofEpochMilli(_).toString).getOrElse("unknown")
    val early = timestampMs != null && timestampMs < System.currentTimeMillis()
    val setting = if (early) TopicConfig.MESSAGE_TIMESTAMP_BEFORE_MAX_MS_CONFIG else TopicConfig.MESSAGE_TIMESTAMP_AFTER_MAX_MS_CONFIG
    val limit = limitOf(conf, setting).map(ms => s", $ms,").getOrElse("")
    val otherwise = if (early) "" else ", or make maxAhead of the stream that it comes from shorter"
    s"topic '$topic' does not take a record of the time $time: its $setting$limit does not allow that; raise it " +
      s"(${altered(setting, Long.MaxValue)})$otherwise"
  }

  private def altered(setting: String, value: Long): String =
    s"kafka-configs --alter --entity-type topics --entity-name $topic --add-config $setting=$value"

  private def limitOf(conf: RuntimeConf, setting: String): Option[String] = Try {
    val resource = new ConfigResource(ConfigResource.Type.TOPIC, topic)
    val admin = Admin.create(conf.client())
    try admin.describeConfigs(Collections.singleton(resource)).values.get(resource).get(AnswerSeconds, SECONDS)
      .get(setting).value
    finally admin.close()
  }.toOption
}

private object SendError {
  private val AnswerSeconds = 5L
  /** The most that Kafka adds to the key and value of a record. */
  private val Overhead = 1024
}
