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

/** The time up to which windows were closed when the epoch began, and when its records were read. */
final case class Closing(before: Long, after: Long) {
  /** The same on a clock that is `lag` behind. */
  def behind(lag: Long): Closing = Closing(StreamTimes.behind(before, lag), StreamTimes.behind(after, lag))
}

/** The question of a task to its driver for the [[Closing]], when all records of the epoch were read. */
final case class AskClosing(applicationId: String, subTopology: String, attempt: Long)

/**
 * The times for the tasks behind the shuffle, and their report: when the first of the things that they still have open is over.
 *
 * @param before the time up to which windows were closed when the epoch began
 * @param fresh whether it is the first epoch of a driver: an earlier version of the app may have had other settings
 */
final case class TaskClosing(question: AskClosing, due: EarliestTime, before: Long, fresh: Boolean) {
  /** Asks the driver. To be called when all records of the epoch were read. */
  def ask(): Closing = RuntimePlugin.ask[Closing](question)
}

object TaskClosing {
  /**
   * Made on the driver, when the operator of these tasks is planned.
   *
   * @param lasting how long after its event time a record keeps something open, in microseconds
   */
  private[keyed] def of(operator: SparkPlan, state: StatefulOperatorStateInfo, lasting: Option[Long]): TaskClosing =
    EpochTimes.underWay(RuntimeConf(operator.session.conf.getAll)).ofTasks(operator.session.sparkContext, state.numPartitions, lasting)
}

/**
 * The times of one attempt at an epoch, on the driver: those that it begins with, and those that its map tasks report.
 *
 * The closed time follows from the epoch's range, the times written with the end of the epoch before, and the idle
 * partitions written with the range: a replay comes to the same time.
 */
final class EpochTimes private (conf: RuntimeConf, private val epoch: Long, val attempt: Long) {
  val before: StreamTimes = EpochTimes.before(conf, epoch)
  private val seen = mutable.Buffer.empty[LatestTimes]
  private var lasting: Option[Long] = None
  private var due: Option[(EarliestTime, Int)] = None
  @volatile var done = false
  private var fresh = false
  /** When the first of the things is over that the epoch before has left open; None where that is not known. */
  private var openUntil: Option[Long] = None

  /**
   * The times for the tasks behind the shuffle, each of which reports when the first of the things that it has open is over.
   *
   * @param tasks the number of tasks
   * @param longest how long after its event time a record keeps something open, in microseconds
   */
  def ofTasks(context: SparkContext, tasks: Int, longest: Option[Long]): TaskClosing = {
    val times = new EarliestTime
    context.register(times)
    due = Some((times, tasks))
    lasting = longest
    TaskClosing(AskClosing(conf.applicationId, conf.subTopology, attempt), times, before.closed, fresh)
  }

  /** Whether a task has something open, or has not reported. */
  private def hasOpen: Boolean = due.exists { case (times, tasks) => times.reports < tasks || times.value != Long.MaxValue }

  /**
   * Whether a window that is still open is over, with time at `closed`; also when a task has not reported, because it had
   * committed in an earlier attempt.
   */
  def isOver(closed: Long): Boolean =
    closed > after.closed && due.exists { case (times, tasks) => times.reports < tasks || times.value <= closed }

  /** See [[openUntil]], at the end of this epoch. */
  private def leavesOpen: Option[Long] = due match {
    case Some((times, tasks)) => Option.when(done && times.reports >= tasks)(times.value)
    case None => Some(Long.MaxValue)
  }

  /** Whether all stays open that the epoch before has left open. To be called when all records of the epoch were read. */
  def closesNothing: Boolean = openUntil.exists(_ > after.closed)

  /** Whether the epoch before has left nothing open, so that time closes nothing in this one. */
  def hasNothingToClose: Boolean = openUntil.contains(Long.MaxValue)

  /** The time at which everything is over that a record has opened; None where nothing stays open. */
  def allOver: Option[Long] = for (longest <- lasting; latest <- after.reached.values.maxOption) yield latest + longest

  /** The accumulator for one group of map tasks. */
  def measured(context: SparkContext): LatestTimes = synchronized {
    val times = new LatestTimes
    context.register(times)
    seen += times
    times
  }

  /** All partitions that are read. */
  private lazy val partitions: Set[String] =
    EpochRanges.ends(MetadataTopic.current(conf.applicationId), conf, epoch).getOrElse(Nil).flatMap {
      end => TimedSources.tagOf(conf.subTopology, end.source).map(TimedSources.key(_, end.topic, end.partition))
    }.toSet

  /** The times at the end of the epoch. To be read when all map tasks have ended: the tasks behind the shuffle start no earlier. */
  lazy val after: StreamTimes = synchronized {
    val Waiting(_, idle, upTo, hops) = EpochTimes.waiting(conf, epoch)
    before.after(seen.flatMap(_.value).toMap, partitions, idle.toSet, upTo, hops)
  }

  /** The times at the end of the next epoch, if it were cut now and without records. */
  private def next(idleness: Idleness): StreamTimes =
    after.after(Map.empty, partitions, idleness.partitions, withoutRecords(idleness), idleness.hops)

  // Without records, event time goes on as fast as the clock, from the latest time that was read; but not where an internal
  // topic may still bring something, as its writer has a clock too.
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
  /** The time to which a test case has moved a sub-topology, in microseconds. */
  private val moved = new ConcurrentHashMap[(String, String), Long]()

  /**
   * Begins an attempt at an epoch, of a sub-topology that goes by times or writes for one that does; an earlier attempt in
   * this process is over.
   */
  def begin(conf: RuntimeConf, epoch: Long): Unit = {
    val times = new EpochTimes(conf, epoch, attempts.incrementAndGet())
    val former = Option(current.put((conf.applicationId, conf.subTopology), times))
    // An epoch that is tried again is as fresh as it was.
    times.fresh = former.forall(last => last.fresh && last.epoch == times.epoch)
    times.openUntil = former.filter(_.epoch == epoch - 1).flatMap(_.leavesOpen)
  }

  /** The times of the attempt that is being planned. */
  def underWay(conf: RuntimeConf): EpochTimes = current.get((conf.applicationId, conf.subTopology))

  def answer(question: AskClosing): Closing = {
    val times = current.get((question.applicationId, question.subTopology))
    if (times == null || times.attempt != question.attempt)
      throw new IllegalStateException(s"sub-topology '${question.subTopology}': this attempt at the epoch was given up")
    times.closing
  }

  /** Ends the epoch under way, and returns the times at its end. */
  def end(conf: RuntimeConf): StreamTimes = {
    val times = underWay(conf)
    times.done = true
    times.after
  }

  /** Whether an epoch without records would close windows, or has to move time. */
  def isDue(subTopology: String): Boolean = ended(subTopology).exists { times =>
    movedTo(subTopology).exists(_ > times.after.closed) ||
      (times.hasOpen && times.isOver(times.next(TimedSources.idleness(subTopology)).closed)) // asked all the time
  }

  /**
   * The time that a sub-topology has reached, for a reader that has read all that it has written. None while it has an epoch under way;
   * [[HopTimes.NotAwaited]] where nothing comes to it and nothing is open there.
   */
  def reached(applicationId: String, subTopology: String): Option[Long] = {
    val idleness = TimedSources.idleness(subTopology)
    Option(current.get((applicationId, subTopology))) match {
      case Some(times) if !times.done => scala.None
      case Some(times) if idleness.silentUs.isEmpty || times.hasOpen =>
        val next = times.next(idleness).closed
        // The results of what is over then are still to be written.
        Some(if (times.isOver(next)) times.after.closed else next)
      case _ => Option.when(idleness.silentUs.isDefined)(HopTimes.NotAwaited)
    }
  }

  /**
   * Moves all partitions of a sub-topology to a time, without a record: an epoch does it, and is noted as one that the clock
   * has caused.
   *
   * @param to the time in microseconds; a time that has passed changes nothing
   */
  def move(applicationId: String, subTopology: String, to: Long): Unit = moved.put((applicationId, subTopology), to)

  /** The times at the end of the last epoch, of the sub-topologies that go by times and have had an epoch in this run. */
  def lastTimes(applicationId: String): Map[String, StreamTimes] =
    current.asScala.collect { case ((app, sub), times) if app == applicationId && times.done => sub -> times.after }.toMap

  private def ended(subTopology: String): Option[EpochTimes] =
    current.asScala.collectFirst { case ((_, sub), times) if sub == subTopology && times.done => times }

  private def movedTo(subTopology: String): Option[Long] =
    moved.asScala.collectFirst { case ((_, sub), to) if sub == subTopology => to }

  def clear(applicationId: String): Unit = for (times <- Seq(current, moved))
    times.keySet.asScala.toSeq.filter(_._1 == applicationId).foreach(times.remove)

  /** The changes to be written in one transaction with this file of Spark's. */
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
 * The part of the clock in an epoch: noted with its range, as a replay must come to the same times.
 *
 * @param idle the partitions that windows do not wait for
 * @param upTo when all are idle, the time that is reached by the clock; at the end of a run that closes its windows, the time when all are over
 * @param hops the time that the writer of each internal topic has reached, by the topic's tag; empty in notes of older versions
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

/** The earliest of some times in microseconds, and how many tasks have reported one. */
final class EarliestTime extends Mergeable[Long, Long] {
  private var earliest = Long.MaxValue
  private var tasks = 0

  def reports: Int = tasks
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
