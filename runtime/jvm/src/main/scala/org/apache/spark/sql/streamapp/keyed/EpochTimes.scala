// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.json4s.{DefaultFormats, Formats}
import org.json4s.jackson.Serialization

import org.apache.spark.SparkContext
import org.apache.spark.sql.streamapp.{EpochRanges, MetadataTopic, RuntimeConf}
import org.apache.spark.util.AccumulatorV2

/** Up to where windows were closed when the epoch began, and when its records were read. */
final case class Closing(before: Long, after: Long)

/** A task asks its driver for them, when all records of the epoch were read. Answered by [[Closing]]. */
final case class AskClosing(applicationId: String, subTopology: String, attempt: Long)

/**
 * The times of one attempt at an epoch, on the driver: those that it begins with, and what its map tasks report.
 *
 * What closes follows from the epoch's range, the times written with the end of the epoch before, and the idle
 * partitions written with the range: a replay comes to the same.
 */
final class EpochTimes private (conf: RuntimeConf, epoch: Long, val attempt: Long) {
  val before: StreamTimes = EpochTimes.before(conf, epoch)
  private val seen = mutable.Buffer.empty[LatestTimes]

  /** For one group of map tasks. */
  def measured(context: SparkContext): LatestTimes = synchronized {
    val times = new LatestTimes
    context.register(times)
    seen += times
    times
  }

  /** To be read when all map tasks have ended: the tasks behind the shuffle start no earlier. */
  lazy val after: StreamTimes = synchronized {
    val idle = EpochTimes.idle(conf, epoch)
    val counted = EpochRanges.ends(MetadataTopic.current(conf.applicationId), conf, epoch).getOrElse(Nil).flatMap {
      end => SourceTags.of(conf.subTopology, end.source).map(SourceTags.key(_, end.topic, end.partition))
    }.filterNot(idle)
    before.after(seen.flatMap(_.value).toMap, counted)
  }

  def closing: Closing = Closing(before.closed, after.closed)
}

object EpochTimes {
  private implicit val formats: Formats = DefaultFormats
  private val attempts = new AtomicLong
  private val current = new ConcurrentHashMap[(String, String), EpochTimes]()

  /** An attempt at an epoch begins; an earlier one in this process is over. */
  def begin(conf: RuntimeConf, epoch: Long): EpochTimes = {
    val times = new EpochTimes(conf, epoch, attempts.incrementAndGet())
    current.put((conf.applicationId, conf.subTopology), times)
    times
  }

  /** That of the attempt which is being planned. */
  def underWay(conf: RuntimeConf): EpochTimes = current.get((conf.applicationId, conf.subTopology))

  def answer(question: AskClosing): Closing = {
    val times = current.get((question.applicationId, question.subTopology))
    if (times == null || times.attempt != question.attempt)
      throw new IllegalStateException(s"sub-topology '${question.subTopology}': this attempt at the epoch was given up")
    times.closing
  }

  /** Up to where windows are closed when the epoch under way has ended; none where there are none, or nothing is closed yet. */
  def closed(conf: RuntimeConf): Option[Long] =
    Option(underWay(conf)).map(_.after.closed).filter(_ != StreamTimes.Unknown)

  def clear(applicationId: String): Unit = current.keySet.asScala.toSeq.filter(_._1 == applicationId).foreach(current.remove)

  /** What is to be written in one transaction with this file of Spark's. */
  def riders(path: String): Seq[MetadataTopic.Change] = path.split('/') match {
    case Array("", app, sub, "commits", epoch) =>
      Option(current.get((app, sub))).map(_.after).filter(_.epoch.toString == epoch)
        .map(times => StreamTimes.path(app, sub) -> times.toBytes).toSeq
    case Array("", app, sub, "offsets", epoch) =>
      val idle = SourceTags.idle(sub)
      if (idle.isEmpty) Nil
      else Seq(idlePath(app, sub) -> Serialization.write(Idle(epoch.toLong, idle.toSeq.sorted)).getBytes(UTF_8))
    case _ => Nil
  }

  private def before(conf: RuntimeConf, epoch: Long): StreamTimes =
    MetadataTopic.current(conf.applicationId).get(StreamTimes.path(conf.applicationId, conf.subTopology)) match {
      case Some(file) =>
        val times = StreamTimes.read(file.bytes)
        if (times.epoch != epoch - 1) throw new IllegalStateException(
          s"sub-topology '${conf.subTopology}': the stream times are of epoch ${times.epoch}, and epoch $epoch needs those before it")
        times
      case scala.None => StreamTimes.None.copy(epoch = epoch - 1)
    }

  private def idle(conf: RuntimeConf, epoch: Long): Set[String] =
    MetadataTopic.current(conf.applicationId).get(idlePath(conf.applicationId, conf.subTopology))
      .map(file => Serialization.read[Idle](new String(file.bytes, UTF_8))).filter(_.epoch == epoch)
      .map(_.partitions.toSet).getOrElse(Set.empty)

  private def idlePath(applicationId: String, subTopology: String) = s"/$applicationId/$subTopology/idle"
}

/** The partitions that windows did not wait for in an epoch: which ones are silent depends on the clock, so it is noted. */
private final case class Idle(epoch: Long, partitions: Seq[String])

/** The latest event time of each source partition, in microseconds. Adding one twice changes nothing. */
final class LatestTimes extends AccumulatorV2[(String, Long), Map[String, Long]] {
  private val times = mutable.Map.empty[String, Long]

  override def isZero: Boolean = times.isEmpty
  override def copy(): LatestTimes = {
    val other = new LatestTimes
    other.merge(this)
    other
  }
  override def reset(): Unit = times.clear()
  override def add(reached: (String, Long)): Unit =
    times(reached._1) = math.max(reached._2, times.getOrElse(reached._1, StreamTimes.Unknown))
  override def merge(other: AccumulatorV2[(String, Long), Map[String, Long]]): Unit = other.value.foreach(add)
  override def value: Map[String, Long] = times.toMap
}
