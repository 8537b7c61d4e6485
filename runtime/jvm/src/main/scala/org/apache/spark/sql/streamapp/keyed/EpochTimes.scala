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
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.streamapp.{EpochRanges, MetadataTopic, RuntimeConf, RuntimePlugin}
import org.apache.spark.util.AccumulatorV2

/** Up to where windows were closed when the epoch began, and when its records were read. */
final case class Closing(before: Long, after: Long)

/** A task asks its driver for them, when all records of the epoch were read. Answered by [[Closing]]. */
final case class AskClosing(applicationId: String, subTopology: String, attempt: Long)

/**
 * What the tasks behind the shuffle learn of time, and tell: when the first is over of what they have still open.
 *
 * @param fresh whether it is the first epoch of a driver: an earlier version of the app may have had other settings
 */
final case class TaskClosing(question: AskClosing, due: EarliestTime, fresh: Boolean) {
  /** To be asked when all records of the epoch were read. */
  def ask(): Closing = RuntimePlugin.ask[Closing](question)
}

/**
 * The times of one attempt at an epoch, on the driver: those that it begins with, and what its map tasks report.
 *
 * What closes follows from the epoch's range, the times written with the end of the epoch before, and the idle
 * partitions written with the range: a replay comes to the same.
 */
final class EpochTimes private (conf: RuntimeConf, private val epoch: Long, lasting: Option[Long], val attempt: Long) {
  val before: StreamTimes = EpochTimes.before(conf, epoch)
  private val seen = mutable.Buffer.empty[LatestTimes]
  private var due: Option[(EarliestTime, Int)] = None
  @volatile var done = false
  private var fresh = false

  // For the tasks behind the shuffle: when the first of what they have open is over.
  private def dueIn(context: SparkContext, tasks: Int): EarliestTime = {
    val times = new EarliestTime
    context.register(times)
    due = Some((times, tasks))
    times
  }

  /**
   * Whether a window is over that is still open, with time at `closed`; also when a task has not told, as it had committed
   * in an earlier attempt.
   */
  def isOver(closed: Long): Boolean =
    closed > after.closed && due.exists { case (times, tasks) => times.told < tasks || times.value <= closed }

  /** The time at which nothing is open that a record has opened; None where nothing stays open. */
  def allOver: Option[Long] = for (longest <- lasting; latest <- after.reached.values.maxOption) yield latest + longest

  /** For one group of map tasks. */
  def measured(context: SparkContext): LatestTimes = synchronized {
    val times = new LatestTimes
    context.register(times)
    seen += times
    times
  }

  /** To be read when all map tasks have ended: the tasks behind the shuffle start no earlier. */
  lazy val after: StreamTimes = synchronized {
    val Waiting(_, idle, upTo) = EpochTimes.waiting(conf, epoch)
    val read = EpochRanges.ends(MetadataTopic.current(conf.applicationId), conf, epoch).getOrElse(Nil).flatMap {
      end => TimedSources.tagOf(conf.subTopology, end.source).map(TimedSources.key(_, end.topic, end.partition))
    }
    before.after(seen.flatMap(_.value).toMap, read.toSet, idle.toSet, upTo)
  }

  def closing: Closing = Closing(before.closed, after.closed)
}

object EpochTimes {
  private implicit val formats: Formats = DefaultFormats
  private val attempts = new AtomicLong
  private val current = new ConcurrentHashMap[(String, String), EpochTimes]()
  /** Up to where a test case has moved the time of a sub-topology, in microseconds. */
  private val moved = new ConcurrentHashMap[(String, String), Long]()

  /**
   * An attempt at an epoch begins; an earlier one in this process is over.
   *
   * @param state the state of the operator that goes by them: its version is the number of the epoch
   * @param lasting until how long after its event time what a record has opened stays open, in microseconds
   */
  def begin(context: SparkContext, conf: RuntimeConf, state: StatefulOperatorStateInfo, lasting: Option[Long]): TaskClosing = {
    val times = new EpochTimes(conf, state.storeVersion, lasting, attempts.incrementAndGet())
    val former = Option(current.put((conf.applicationId, conf.subTopology), times))
    // An epoch that is tried again is as fresh as it was.
    times.fresh = former.forall(last => last.fresh && last.epoch == times.epoch)
    TaskClosing(AskClosing(conf.applicationId, conf.subTopology, times.attempt), times.dueIn(context, state.numPartitions), times.fresh)
  }

  /** That of the attempt which is being planned. */
  def underWay(conf: RuntimeConf): EpochTimes = current.get((conf.applicationId, conf.subTopology))

  def answer(question: AskClosing): Closing = {
    val times = current.get((question.applicationId, question.subTopology))
    if (times == null || times.attempt != question.attempt)
      throw new IllegalStateException(s"sub-topology '${question.subTopology}': this attempt at the epoch was given up")
    times.closing
  }

  /** The epoch under way has ended. What time has reached then; none where there are no windows. */
  def end(conf: RuntimeConf): Option[StreamTimes] = Option(underWay(conf)).map { times =>
    times.done = true
    times.after
  }

  /** Whether an epoch without records would close windows, or is to move time. */
  def isDue(subTopology: String): Boolean = ended(subTopology).exists { times =>
    movedTo(subTopology).exists(_ > times.after.closed) || timeWithoutRecords(subTopology, times).exists(times.isOver)
  }

  /**
   * All partitions of a sub-topology come to a time, without a record: an epoch does it, which is noted as one that the clock
   * has caused.
   *
   * @param to in microseconds; one that is over changes nothing
   */
  def move(applicationId: String, subTopology: String, to: Long): Unit = moved.put((applicationId, subTopology), to)

  /** The times at the end of the last epoch, of the sub-topologies that go by them and have had one in this run. */
  def lastTimes(applicationId: String): Map[String, StreamTimes] =
    current.asScala.collect { case ((app, sub), times) if app == applicationId && times.done => sub -> times.after }.toMap

  private def ended(subTopology: String): Option[EpochTimes] =
    current.asScala.collectFirst { case ((_, sub), times) if sub == subTopology && times.done => times }

  private def movedTo(subTopology: String): Option[Long] =
    moved.asScala.collectFirst { case ((_, sub), to) if sub == subTopology => to }

  // When nothing comes, event time goes on as fast as the clock, from the latest that was read.
  private def timeWithoutRecords(subTopology: String, times: EpochTimes): Option[Long] = {
    val idleness = TimedSources.idleness(subTopology)
    val byClock =
      if (idleness.over) times.allOver
      else for (silent <- idleness.silentUs; latest <- times.after.reached.values.maxOption) yield latest + silent
    (byClock ++ movedTo(subTopology)).maxOption
  }

  def clear(applicationId: String): Unit = for (times <- Seq(current, moved))
    times.keySet.asScala.toSeq.filter(_._1 == applicationId).foreach(times.remove)

  /** What is to be written in one transaction with this file of Spark's. */
  def riders(path: String): Seq[MetadataTopic.Change] = path.split('/') match {
    case Array("", app, sub, "commits", epoch) =>
      Option(current.get((app, sub))).map(_.after).filter(_.epoch.toString == epoch)
        .map(times => StreamTimes.path(app, sub) -> times.toBytes).toSeq
    case Array("", app, sub, "offsets", epoch) =>
      val idle = TimedSources.idleness(sub).partitions
      val upTo = ended(sub).flatMap(timeWithoutRecords(sub, _)).getOrElse(StreamTimes.Unknown)
      if (idle.isEmpty && upTo == StreamTimes.Unknown) Nil
      else Seq(waitingPath(app, sub) -> Serialization.write(Waiting(epoch.toLong, idle.toSeq.sorted, upTo)).getBytes(UTF_8))
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

  private def waiting(conf: RuntimeConf, epoch: Long): Waiting =
    MetadataTopic.current(conf.applicationId).get(waitingPath(conf.applicationId, conf.subTopology))
      .map(file => Serialization.read[Waiting](new String(file.bytes, UTF_8))).filter(_.epoch == epoch)
      .getOrElse(Waiting(epoch, Nil, StreamTimes.Unknown))

  private def waitingPath(applicationId: String, subTopology: String) = s"/$applicationId/$subTopology/waiting"
}

/**
 * What the clock has said about an epoch: noted with its range, as a replay must come to the same.
 *
 * @param idle the partitions that windows do not wait for
 * @param upTo when all are idle, how far time has come by the clock; at the end of a run that closes its windows, theirs
 */
private final case class Waiting(epoch: Long, idle: Seq[String], upTo: Long)

/** An accumulator that is copied by merging it into an empty one. */
private[keyed] abstract class Mergeable[In, Out] extends AccumulatorV2[In, Out] {
  protected def empty: Mergeable[In, Out]

  override def copy(): Mergeable[In, Out] = {
    val other = empty
    other.merge(this)
    other
  }
}

/** The earliest of some times in microseconds, and how many tasks have told one. */
final class EarliestTime extends Mergeable[Long, Long] {
  private var earliest = Long.MaxValue
  private var tasks = 0

  def told: Int = tasks
  override def isZero: Boolean = tasks == 0
  override protected def empty: EarliestTime = new EarliestTime
  override def reset(): Unit = {
    earliest = Long.MaxValue
    tasks = 0
  }
  override def add(time: Long): Unit = {
    earliest = math.min(earliest, time)
    tasks += 1
  }
  override def merge(other: AccumulatorV2[Long, Long]): Unit = other match {
    case times: EarliestTime =>
      earliest = math.min(earliest, times.earliest)
      tasks += times.tasks
  }
  override def value: Long = earliest
}

/** The latest event time of each source partition, in microseconds. Adding one twice changes nothing. */
final class LatestTimes extends Mergeable[(String, Long), Map[String, Long]] {
  private val times = mutable.Map.empty[String, Long]

  override def isZero: Boolean = times.isEmpty
  override protected def empty: LatestTimes = new LatestTimes
  override def reset(): Unit = times.clear()
  override def add(reached: (String, Long)): Unit =
    times(reached._1) = math.max(reached._2, times.getOrElse(reached._1, StreamTimes.Unknown))
  override def merge(other: AccumulatorV2[(String, Long), Map[String, Long]]): Unit = other.value.foreach(add)
  override def value: Map[String, Long] = times.toMap
}
