// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import java.util.concurrent.{ConcurrentHashMap, ExecutionException}

import scala.collection.mutable

import org.apache.kafka.common.{KafkaException, TopicPartition}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.streamapp.RuntimeConf

/**
 * Lets the sources of a sub-topology advance together while more records wait than an epoch takes: up to the same time. So a record of
 * a stream meets rows of a table of its own time, and state keeps about as much as without a backlog.
 *
 * Kafka finds records by their timestamps. From a source with other event times, and from a partition whose next record is from the
 * far future, an epoch takes the same share of the waiting records as from the others.
 *
 * The waiting records of sources that are asked later in a round are known from the round before.
 */
private[kafka010] final class Backlog private (run: String, log: KafkaLog) extends Logging {
  private val members = mutable.LinkedHashMap.empty[AnyRef, () => Waiting]
  private val waiting = mutable.Map.empty[AnyRef, Waiting]
  private val rounds = new Rounds
  /** The step of this round; None until a source needs it. */
  private var step: Option[Step] = None
  private val search = new StepSearch(new TimeIndex(log).at)

  /** @param ahead gives the waiting records of the source, when another one is the first to be asked */
  def join(source: AnyRef, ahead: () => Waiting): Unit = members(source) = ahead

  /** Notes that Spark asks the source. */
  def asks(source: AnyRef): Unit = if (rounds.begins(source)) step = None

  /** Notes the waiting records that the source has found. */
  def looked(source: AnyRef, what: Waiting): Unit = waiting(source) = what

  /** Notes that the next epoch reads the source up to there. */
  def reads(source: AnyRef, ends: Map[TopicPartition, Long]): Unit =
    waiting.updateWith(source)(_.map(known => known.copy(start = known.start ++ ends)))

  /**
   * Returns where the next epoch ends for a source that has looked; None where nothing but its own limit counts.
   *
   * @param most the most records that an epoch takes from a source
   */
  def cut(source: AnyRef, most: Long): Option[Cut] = {
    if (step.isEmpty) step = Some(decide(most))
    step.flatMap(_.cut(waiting(source), most))
  }

  private def decide(most: Long): Step = {
    members.foreach { case (member, ahead) => if (!waiting.contains(member)) waiting(member) = ahead() }
    try search.next(waiting.values.toSeq, most)
    catch {
      case error @ (_: ExecutionException | _: KafkaException) => // the reader of the records finds out
        logWarning("Kafka does not answer with the offsets of a time: each source advances by itself in this epoch", error)
        Step.Free
    }
  }

  /** Removes a source. To be called once by each, when the query ends. */
  def leave(source: AnyRef): Unit = Backlog.all.computeIfPresent(run, (_, _) => {
    members -= source
    waiting -= source
    if (members.nonEmpty) this
    else {
      log.close()
      null
    }
  })
}

private[kafka010] object Backlog {
  private val all = new ConcurrentHashMap[String, Backlog]()

  /** Returns the backlog of a query's run. */
  def of(run: String, conf: RuntimeConf): Backlog = all.computeIfAbsent(run, _ => new Backlog(run, new KafkaLog(conf)))
}

/**
 * The unread records of a source.
 *
 * @param byTime whether the timestamps of its records are their event times
 */
private[kafka010] final case class Waiting(start: Map[TopicPartition, Long], latest: Map[TopicPartition, Long], byTime: Boolean) {
  /** The number of waiting records, by partition; only partitions that have some. */
  val sizes: Map[TopicPartition, Long] = for {
    (partition, end) <- latest
    from <- start.get(partition) if end > from
  } yield partition -> (end - from)
  val total: Long = sizes.values.sum
}

/**
 * Where the next epoch ends.
 *
 * @param ends the ends of partitions with waiting records
 * @param later the partitions of which it takes none, as their next record is of a later time than all that it reads
 */
private[kafka010] final case class Cut(ends: Map[TopicPartition, Long], later: Set[TopicPartition])

/**
 * How far an epoch reads.
 *
 * @param time in milliseconds: records with earlier timestamps are read
 * @param places the first record at or behind that time, of the partitions for which the time decides
 * @param share the share of the waiting records that is read of other partitions
 */
private[kafka010] final case class Step(time: Long, places: Map[TopicPartition, Place], share: Double, farAhead: Long) {
  /**
   * @param most the most records in all
   * @return None where each source takes what its own limit allows
   */
  def cut(source: Waiting, most: Long): Option[Cut] = Option.when(share > 0) {
    val ends = source.sizes.map { case (partition, size) =>
      partition -> decided(source, partition).getOrElse(source.start(partition) + math.max(1L, math.min(size, (size * share).toLong)))
    }
    val wanted = ends.map { case (partition, end) => end - source.start(partition) }.sum
    val capped =
      if (wanted <= most) ends
      else ends.map { case (partition, end) =>
        val (from, part) = (source.start(partition), most.toDouble / wanted)
        partition -> (from + math.ceil((end - from) * part).toLong)
      }
    Cut(capped, ends.keySet.filter(partition => decided(source, partition).contains(source.start(partition))))
  }

  /** The number of records of the source before the step's time. */
  def count(source: Waiting): Long =
    source.sizes.keys.map(partition => decided(source, partition).fold(0L)(_ - source.start(partition))).sum

  private def decided(source: Waiting, partition: TopicPartition): Option[Long] = {
    val start = source.start(partition)
    places.get(partition).filter(place => source.byTime && (place.offset > start || place.time <= farAhead))
      .map(place => math.max(start, math.min(source.latest(partition), place.offset)))
  }
}

private[kafka010] object Step {
  /** Each source takes what its own limit allows. */
  val Free: Step = Step(0L, Map.empty, 0.0, 0L)
}

/**
 * Looks for the time up to which the next epoch reads.
 *
 * @param at gives the first record of each partition at or behind a time; which one it is behind the waiting records does not matter
 */
private[kafka010] final class StepSearch(at: (Map[TopicPartition, Unread], Long) => Map[TopicPartition, Place]) {
  import StepSearch._

  private var reached = 0L
  private var span = FirstSpanMs

  /** @param most the most records that an epoch takes from a source */
  def next(sources: Seq[Waiting], most: Long): Step = {
    val timed = sources.filter(_.byTime)
    val partitions = timed.flatMap(_.sizes.keys).toSet
    if (sources.forall(_.total <= most) || most < sources.map(_.sizes.size).sum) Step.Free
    else {
      val share = sources.filter(_.total > 0).map(each => math.min(1.0, most.toDouble / each.total)).min
      if (partitions.size < 2) Step(0L, Map.empty, share, 0L)
      else {
        val others = sources.exists(source => !source.byTime && source.total > 0)
        val found = search(timed, most, if (others) math.max(1L, (timed.map(_.total).sum * share).toLong) else Long.MaxValue)
        val taken = timed.map(source => math.min(most, found.count(source))).sum
        found.copy(share = if (taken > 0) taken.toDouble / timed.map(_.total).sum else share)
      }
    }
  }

  // The records before `low` are few enough, those before `high` too many. The first steps double, later ones halve the interval.
  private def search(timed: Seq[Waiting], most: Long, mostOfAll: Long): Step = {
    val farAhead = System.currentTimeMillis() + FarAheadMs
    // How many more than an epoch takes does not matter. Two sources may read one topic.
    val unread = timed.flatMap(source => source.sizes.map { case (partition, size) =>
      partition -> Unread(source.start(partition), source.start(partition) + math.min(size, most + 1))
    }).groupMapReduce(_._1)(_._2)((one, two) => Unread(math.min(one.from, two.from), math.max(one.until, two.until)))
    var low = reached
    var high = Long.MaxValue
    var (little, much) = (Option.empty[Step], Option.empty[Step])
    var time = if (reached == 0) 0L else reached + span
    var looks = 0
    var enough = false
    while (!enough && high - low > 1 && looks < MostLooks) {
      val step = Step(time, at(unread, time), 1.0, farAhead)
      val counts = timed.map(step.count)
      if (counts.exists(_ > most) || counts.sum > mostOfAll) {
        high = time
        much = Some(step)
      } else {
        low = time
        little = Some(step)
        enough = counts.exists(_ >= most / 2) || counts.sum >= mostOfAll / 2
      }
      val next = step.places.values.filterNot(place => place == Place.End || place.time > farAhead).map(_.time).minOption
      if (high < Long.MaxValue) time = low + (high - low) / 2
      else next match {
        case Some(first) => // no record is before it
          span *= 2
          time = math.max(low, first) + span
        case None => enough = true // all records are before that time
      }
      looks += 1
    }
    // If more records have one time than an epoch takes, it takes some of them.
    val best = little.filter(step => timed.exists(step.count(_) > 0)).orElse(much).orElse(little).get
    span = if (reached > 0) math.max(1L, best.time - reached) else FirstSpanMs
    reached = best.time
    best
  }
}

private object StepSearch {
  /** A record that is this far ahead of the clock says nothing about the time: nobody has to wait for it. */
  private val FarAheadMs = 3600L * 1000
  private val FirstSpanMs = 1000L
  private val MostLooks = 64
}
