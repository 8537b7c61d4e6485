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
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.streamapp.{EpochRanges, MetadataTopic, RuntimeConf, RuntimePlugin}
import org.apache.spark.util.AccumulatorV2

/** Up to where windows were closed when the epoch began, and when its records were read. */
final case class Closing(before: Long, after: Long) {
  /** The same for what comes by so much later. */
  def behind(lag: Long): Closing = Closing(StreamTimes.behind(before, lag), StreamTimes.behind(after, lag))
}

/** A task asks its driver for them, when all records of the epoch were read. Answered by [[Closing]]. */
final case class AskClosing(applicationId: String, subTopology: String, attempt: Long)

/**
 * What the tasks behind the shuffle learn of time, and tell: when the first is over of what they have still open.
 *
 * @param before up to where windows were closed when the epoch began
 * @param fresh whether it is the first epoch of a driver: an earlier version of the app may have had other settings
 */
final case class TaskClosing(question: AskClosing, due: EarliestTime, before: Long, fresh: Boolean) {
  /** To be asked when all records of the epoch were read. */
  def ask(): Closing = RuntimePlugin.ask[Closing](question)
}

object TaskClosing {
  /**
   * To be made on the driver, when the operator of these tasks is planned.
   *
   * @param lasting until how long after its event time what a record has opened stays open, in microseconds
   */
  private[keyed] def of(operator: SparkPlan, state: StatefulOperatorStateInfo, lasting: Option[Long]): TaskClosing =
    EpochTimes.underWay(RuntimeConf(operator.session.conf.getAll)).ofTasks(operator.session.sparkContext, state.numPartitions, lasting)
}

/**
 * The times of one attempt at an epoch, on the driver: those that it begins with, and what its map tasks report.
 *
 * What closes follows from the epoch's range, the times written with the end of the epoch before, and the idle
 * partitions written with the range: a replay comes to the same.
 */
final class EpochTimes private (conf: RuntimeConf, private val epoch: Long, val attempt: Long) {
  val before: StreamTimes = EpochTimes.before(conf, epoch)
  private val seen = mutable.Buffer.empty[LatestTimes]
  private var lasting: Option[Long] = None
  private var due: Option[(EarliestTime, Int)] = None
  @volatile var done = false
  private var fresh = false

  /**
   * For the tasks behind the shuffle, each of which tells when the first of what it has open is over.
   *
   * @param tasks how many there are
   * @param longest until how long after its event time what a record has opened stays open, in microseconds
   */
  def ofTasks(context: SparkContext, tasks: Int, longest: Option[Long]): TaskClosing = {
    val times = new EarliestTime
    context.register(times)
    due = Some((times, tasks))
    lasting = longest
    TaskClosing(AskClosing(conf.applicationId, conf.subTopology, attempt), times, before.closed, fresh)
  }

  /** Whether a task has something open, or has not told. */
  private def hasOpen: Boolean = due.exists { case (times, tasks) => times.told < tasks || times.value != Long.MaxValue }

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

  /** All that are read. */
  private lazy val partitions: Set[String] =
    EpochRanges.ends(MetadataTopic.current(conf.applicationId), conf, epoch).getOrElse(Nil).flatMap {
      end => TimedSources.tagOf(conf.subTopology, end.source).map(TimedSources.key(_, end.topic, end.partition))
    }.toSet

  /** To be read when all map tasks have ended: the tasks behind the shuffle start no earlier. */
  lazy val after: StreamTimes = synchronized {
    val Waiting(_, idle, upTo, hops) = EpochTimes.waiting(conf, epoch)
    before.after(seen.flatMap(_.value).toMap, partitions, idle.toSet, upTo, hops)
  }

  /** The times at the end of the next epoch, were it cut now and without records. */
  private def next(idleness: Idleness): StreamTimes =
    after.after(Map.empty, partitions, idleness.partitions, withoutRecords(idleness), idleness.hops)

  // When nothing comes, event time goes on as fast as the clock, from the latest that was read; not where an internal topic
  // may still bring something, as its writer has a clock too.
  private def withoutRecords(idleness: Idleness): Long = {
    val byClock =
      if (idleness.over) allOver
      else if (idleness.hops.values.exists(_ != HopTimes.NotAwaited)) None
      else for (silent <- idleness.silentUs; latest <- after.reached.values.maxOption) yield latest + silent
    (byClock ++ EpochTimes.movedTo(conf.subTopology)).maxOption.getOrElse(StreamTimes.Unknown)
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
   * An attempt at an epoch begins, of a sub-topology that goes by them or writes for one that does; an earlier one in this
   * process is over.
   */
  def begin(conf: RuntimeConf, epoch: Long): Unit = {
    val times = new EpochTimes(conf, epoch, attempts.incrementAndGet())
    val former = Option(current.put((conf.applicationId, conf.subTopology), times))
    // An epoch that is tried again is as fresh as it was.
    times.fresh = former.forall(last => last.fresh && last.epoch == times.epoch)
  }

  /** That of the attempt which is being planned. */
  def underWay(conf: RuntimeConf): EpochTimes = current.get((conf.applicationId, conf.subTopology))

  def answer(question: AskClosing): Closing = {
    val times = current.get((question.applicationId, question.subTopology))
    if (times == null || times.attempt != question.attempt)
      throw new IllegalStateException(s"sub-topology '${question.subTopology}': this attempt at the epoch was given up")
    times.closing
  }

  /** The epoch under way has ended. What time has reached then. */
  def end(conf: RuntimeConf): StreamTimes = {
    val times = underWay(conf)
    times.done = true
    times.after
  }

  /** Whether an epoch without records would close windows, or is to move time. */
  def isDue(subTopology: String): Boolean = ended(subTopology).exists { times =>
    movedTo(subTopology).exists(_ > times.after.closed) ||
      (times.hasOpen && times.isOver(times.next(TimedSources.idleness(subTopology)).closed)) // asked all the time
  }

  /**
   * How far time has come in a sub-topology for who has read all that it has written. None while it has an epoch under way;
   * [[HopTimes.NotAwaited]] where nothing comes to it and nothing is open there.
   */
  def reached(applicationId: String, subTopology: String): Option[Long] = {
    val idleness = TimedSources.idleness(subTopology)
    Option(current.get((applicationId, subTopology))) match {
      case Some(times) if !times.done => scala.None
      case Some(times) if idleness.silentUs.isEmpty || times.hasOpen =>
        val next = times.next(idleness).closed
        // What is over then is still to be written.
        Some(if (times.isOver(next)) times.after.closed else next)
      case _ => Option.when(idleness.silentUs.isDefined)(HopTimes.NotAwaited)
    }
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

  def clear(applicationId: String): Unit = for (times <- Seq(current, moved))
    times.keySet.asScala.toSeq.filter(_._1 == applicationId).foreach(times.remove)

  /** What is to be written in one transaction with this file of Spark's. */
  def riders(path: String): Seq[MetadataTopic.Change] = path.split('/') match {
    case Array("", app, sub, "commits", epoch) =>
      Option(current.get((app, sub))).map(_.after).filter(_.epoch.toString == epoch)
        .map(times => StreamTimes.path(app, sub) -> times.toBytes).toSeq
    case Array("", app, sub, "offsets", epoch) =>
      val idleness = TimedSources.idleness(sub)
      val upTo = ended(sub).map(_.withoutRecords(idleness)).getOrElse(StreamTimes.Unknown)
      if (idleness.partitions.isEmpty && upTo == StreamTimes.Unknown && idleness.hops.isEmpty) Nil
      else {
        val waiting = Waiting(epoch.toLong, idleness.partitions.toSeq.sorted, upTo, idleness.hops)
        Seq(waitingPath(app, sub) -> Serialization.write(waiting).getBytes(UTF_8))
      }
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
      .getOrElse(Waiting(epoch, Nil, StreamTimes.Unknown, Map.empty))

  private def waitingPath(applicationId: String, subTopology: String) = s"/$applicationId/$subTopology/waiting"
}

/**
 * What the clock has said about an epoch: noted with its range, as a replay must come to the same.
 *
 * @param idle the partitions that windows do not wait for
 * @param upTo when all are idle, how far time has come by the clock; at the end of a run that closes its windows, theirs
 * @param hops by the tags of internal topics, how far time had come where they are written; nothing in what older versions have noted
 */
private final case class Waiting(epoch: Long, idle: Seq[String], upTo: Long, hops: Map[String, Long] = Map.empty)

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
