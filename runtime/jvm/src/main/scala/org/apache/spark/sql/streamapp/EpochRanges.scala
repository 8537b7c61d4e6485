// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest

import org.json4s.{JInt, JObject}
import org.json4s.jackson.JsonMethods

import org.apache.spark.{SparkContext, TaskContext}

/**
 * The records that an epoch reads, as a short text that is equal for equal ranges. Tasks write it into the markers of their
 * stores: a task that finds its epoch done must have done it with the ranges that the epoch has now. They differ when the
 * record of the epoch on the metadata topic was lost and the epoch was planned anew; then records would be lost.
 */
object EpochRanges {
  private val Property = "streamapp.epochRanges"

  /** Sets the ranges of an epoch. To be called on the driver before the tasks of the epoch start. */
  def announce(context: SparkContext, conf: RuntimeConf, epoch: Long): Unit =
    context.setLocalProperty(Property, MetadataTopic.find(conf.applicationId).flatMap(digest(_, conf, epoch)).orNull)

  /** The ranges of the running task's epoch, if they are known. */
  def current: Option[String] = Option(TaskContext.get()).flatMap(task => Option(task.getLocalProperty(Property)))

  /** The offset up to which an epoch reads a partition of one of the query's sources, which have numbers for names. */
  final case class End(source: Int, topic: String, partition: Int, offset: Long)

  /** The folder of the files that say what epochs read. */
  def logOf(conf: RuntimeConf): String = s"/${conf.applicationId}/${conf.subTopology}/offsets"

  /** The last epoch that was planned. */
  def lastPlanned(metadata: MetadataTopic, conf: RuntimeConf): Option[Long] = last(metadata, conf, "offsets")

  private def last(metadata: MetadataTopic, conf: RuntimeConf, log: String): Option[Long] =
    metadata.below(s"/${conf.applicationId}/${conf.subTopology}/$log").flatMap { case (file, _) =>
      file.substring(file.lastIndexOf('/') + 1).toLongOption
    }.maxOption

  /** The ends of an epoch; None when it is not on the metadata topic. */
  def ends(metadata: MetadataTopic, conf: RuntimeConf, epoch: Long): Option[Seq[End]] =
    metadata.get(s"${logOf(conf)}/$epoch").map(file => parse(new String(file.bytes, UTF_8)))

  /**
   * The number of records of the epoch that was planned last, if it has not ended: an earlier attempt left it to the query that
   * starts. A partition that no epoch has read before counts from its first offset, though its first records may be gone.
   */
  def recordsUnderWay(metadata: MetadataTopic, conf: RuntimeConf): Long =
    lastPlanned(metadata, conf).filterNot(last(metadata, conf, "commits").contains).fold(0L) { epoch =>
      def offsets(of: Long): Map[(Int, String, Int), Long] = ends(metadata, conf, of).getOrElse(Nil).map { end =>
        (end.source, end.topic, end.partition) -> end.offset
      }.toMap
      val from = offsets(epoch - 1)
      offsets(epoch).map { case (partition, until) => math.max(0L, until - from.getOrElse(partition, 0L)) }.sum
    }

  private def digest(metadata: MetadataTopic, conf: RuntimeConf, epoch: Long): Option[String] = {
    def lines(of: Long): Option[Seq[String]] = ends(metadata, conf, of).map(_.groupBy(_.source).toSeq.sortBy(_._1).flatMap {
      case (source, ends) => ends.map(end => s"$source/${end.topic}/${end.partition}:${end.offset}").sorted
    })
    lines(epoch).map { until =>
      val text = (lines(epoch - 1).getOrElse(Nil) ++ ("until" +: until)).mkString("\n")
      MessageDigest.getInstance("SHA-256").digest(text.getBytes(UTF_8)).take(16).map(byte => f"$byte%02x").mkString
    }
  }

  /** Parses a file of Spark's offset log: after a line for the version and one for the metadata comes NUMBER:POSITION for each source. */
  private def parse(log: String): Seq[End] =
    for {
      line <- log.linesIterator.toSeq.drop(2)
      (source, position) = line.splitAt(line.indexOf(':')) if position.startsWith(":{")
      (topic, partitions) <- JsonMethods.parse(position.drop(1)).asInstanceOf[JObject].obj
      (partition, offset) <- partitions match {
        case JObject(fields) => fields.collect { case (partition, JInt(offset)) => partition.toInt -> offset.toLong }
        case _ => Nil
      }
    } yield End(source.toInt, topic, partition, offset)
}
