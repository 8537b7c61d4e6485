// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable

/**
 * Sizes epochs by the time they take, not by the lag: behind a backlog an epoch takes about three seconds. So memory stays
 * bounded, a stop or a scaling step is never far away, and nothing needs tuning.
 *
 * A step controller, not a model of the rate: an epoch has a fixed part and a part that grows with its keys rather than
 * its records, so that "records per second" says little about an epoch of another size. After an epoch that ends well
 * before the target, the next one may be two to eight times as large; after one that takes much longer, the next one is
 * cut in proportion. The first epoch of a process, which compiles and connects, does not count, unless it took half of
 * the time that a transaction may take.
 *
 * The range of an epoch is fixed before its first task runs, so the first epochs are small: nobody knows yet how long a
 * record takes, and Kafka ends a transaction that outlives its timeout.
 */
final class EpochPacer {
  import EpochPacer._

  @volatile private var limitRecords = FirstLimit
  @volatile private var draining = false
  @volatile private var chosen = false
  private var transactionMs = 60000L
  private var warm = false
  private val expected = mutable.Map[AnyRef, Long]()
  private val input = mutable.Map[AnyRef, Long]()
  private var startedNs = 0L

  /** The most records that the next epoch may take from each of the sub-topology's sources. */
  def limit: Long = if (draining) 0L else math.min(limitRecords, most)

  def drain(): Unit = draining = true

  /**
   * Starts a query, in a process that may have run it before.
   *
   * @param transactionMs  how long one transaction may take
   * @param learned        the limit that an earlier run has noted (see [[worthNoting]])
   */
  def begin(transactionMs: Long, learned: Option[Long]): Unit = synchronized {
    this.transactionMs = transactionMs
    if (!warm) learned.foreach(limit => limitRecords = math.min(limitRecords, math.max(1L, limit)))
    chosen = false
    expected.clear()
    input.clear()
  }

  /** True while the query runs an epoch whose range was fixed before the query started: an earlier attempt did not finish it. */
  def repeating: Boolean = !chosen

  /**
   * The limit, if a later run should begin with it: a small one. A large one is reached again within a few epochs, and
   * might be too much for the next version of the app.
   */
  def worthNoting: Option[Long] = Some(limitRecords).filter(_ < FirstLimit)

  /** The number of records that the sources give to the epoch under way. */
  def underWay: Long = synchronized(input.values.sum)

  /** Notes how many records a source will have for the next epoch; returns the sum over all sources so far. */
  def expect(source: AnyRef, records: Long): Long = synchronized {
    chosen = true
    expected(source) = records
    expected.values.sum
  }

  /** Notes how many records a source is about to read in the epoch that starts now. */
  def planned(source: AnyRef, records: Long): Unit = synchronized {
    if (input.isEmpty) startedNs = System.nanoTime()
    input(source) = records
    expected.clear()
  }

  /** Learns from a committed epoch. */
  def epochDone(): Unit = synchronized {
    if (input.nonEmpty) {
      observe(input.values.sum, (System.nanoTime() - startedNs) / 1000000)
      input.clear()
    }
  }

  private[streamapp] def observe(records: Long, millis: Long): Unit = {
    val targetMs = math.min(TargetMs, transactionMs / 4)
    val full = records >= limitRecords / 2 // a smaller one says nothing about how large ones run
    limitRecords =
      if (millis > transactionMs / 2) math.max(1L, math.min(limitRecords, records * targetMs / millis))
      else if (!full || !warm) limitRecords
      else if (millis < targetMs * RoomBelow) math.min(limitRecords * growth(targetMs, millis), Largest)
      else if (millis > targetMs * RoomAbove) math.max(limitRecords * targetMs / millis, math.min(Smallest, limitRecords))
      else limitRecords
    warm ||= records > 0
  }

  private def growth(targetMs: Long, millis: Long): Long =
    math.max(2L, math.min(targetMs / math.max(millis, 1L), FastestGrowth))
}

object EpochPacer {
  private val TargetMs = 3000L
  private val RoomBelow = 0.75
  private val RoomAbove = 1.6
  private val FirstLimit = 5000L
  private val FastestGrowth = 8L
  private val Smallest = 1000L
  private val Largest = 5000000L

  private val pacers = new ConcurrentHashMap[String, EpochPacer]()
  def of(subTopology: String): EpochPacer = pacers.computeIfAbsent(subTopology, _ => new EpochPacer)

  @volatile private var most = Long.MaxValue

  /** Limits the records that an epoch takes from a source, for this run: tests use it to get small epochs. */
  def atMost(records: Long): Unit = most = records

  def clear(): Unit = {
    pacers.clear()
    most = Long.MaxValue
  }
}
