// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.Collections
import java.util.concurrent.ExecutionException

import scala.jdk.CollectionConverters._

import org.apache.kafka.clients.admin.{Admin, DescribeTopicsOptions, TopicDescription}
import org.apache.kafka.common.errors.GroupIdNotFoundException

/** Checks the application's objects in Kafka: the ids of the internal topics, and the consumer group. */
private[streamapp] final class OwnObjects(conf: RuntimeConf) extends AutoCloseable {
  import OwnObjects._

  private var admin: Option[Admin] = None
  private var keptAt = System.nanoTime() - KeptForNs - 1
  private var closed = false

  private def client: Admin = admin.getOrElse {
    if (closed) throw new IllegalStateException(s"the run of '${conf.applicationId}' has ended")
    val made = Admin.create(conf.client())
    admin = Some(made)
    made
  }

  /**
   * Compares the internal topics' ids with those on record. A check within the last second is trusted. A missing topic, or
   * a Kafka that does not answer, is no error here: readers and writers report it.
   * @throws PositionMismatchException when a topic was made anew
   */
  def requireKept(own: Map[String, String]): Unit = synchronized {
    if (System.nanoTime() - keptAt > KeptForNs) {
      val recorded = own.collect { case (key, id) if key.startsWith(Topics) && id.nonEmpty => key.stripPrefix(Topics) -> id }
      val options = new DescribeTopicsOptions().timeoutMs(AnswerMs)
      val answers = if (recorded.isEmpty) Map.empty else client.describeTopics(recorded.keys.toSeq.asJava, options).topicNameValues.asScala
      for ((name, answer) <- answers; found <- described(() => answer.get())) {
        val id = found.topicId.toString
        if (id != recorded(name)) throw new PositionMismatchException(
          s"internal topic '$name' was deleted and made anew (its id was ${recorded(name)} and is $id): its content is lost")
      }
      keptAt = System.nanoTime()
    }
  }

  private def described(answer: () => TopicDescription): Option[TopicDescription] =
    try Some(answer()) catch { case _: ExecutionException => None }

  /** Whether no consumer group of that name has members or offsets. */
  def groupIsFree(name: String): Boolean = synchronized {
    val groups = Collections.singletonList(name)
    try {
      client.describeConsumerGroups(groups).all().get().get(name).members.isEmpty &&
        client.listConsumerGroupOffsets(name).partitionsToOffsetAndMetadata().get().isEmpty
    } catch { case error: ExecutionException if error.getCause.isInstanceOf[GroupIdNotFoundException] => true }
  }

  override def close(): Unit = synchronized {
    closed = true
    admin.foreach(_.close())
    admin = None
  }
}

object OwnObjects {
  /** The folder of the metadata topic that lists the application's objects (see the runtime's kafka/ownership.py). */
  val Folder = "own"
  private val Topics = s"$Folder/topic/"
  private val KeptForNs = 1000000000L
  private val AnswerMs = 10000
}
