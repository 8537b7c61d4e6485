// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable

/**
 * Sizes epochs by the time they take, not by the lag: behind a backlog, an epoch gets as many records as are expected
 * to fit `targetMs`. So memory stays bounded, a stop or a scaling step is never far away, and nothing needs tuning.
 *
 * The expected rate is the measured one, smoothed; an epoch never grows by more than a factor of three at once.
 */
final class EpochPacer {
  import EpochPacer._

  @volatile private var targetMs = DefaultTargetMs
  @volatile private var limitRecords = FirstLimit
  @volatile private var draining = false
  private var rate = 0.0 // records per ms
  private val input = mutable.Map[AnyRef, Long]()
  private var startedNs = 0L

  /** Most records that the next epoch may take from each of the sub-topology's sources. */
  def limit: Long = if (draining) 0L else limitRecords

  def drain(): Unit = draining = true

  def target(millis: Long): Unit = targetMs = millis

  /** A source is about to read so many records in the epoch that starts now. */
  def planned(source: AnyRef, records: Long): Unit = synchronized {
    if (input.isEmpty) startedNs = System.nanoTime()
    input(source) = records
  }

  /** The epoch is committed: learn from it. */
  def epochDone(): Unit = synchronized {
    if (input.nonEmpty) {
      observe(input.values.sum, (System.nanoTime() - startedNs) / 1000000)
      input.clear()
    }
  }

  private[streamapp] def observe(records: Long, millis: Long): Unit =
    if (records >= limitRecords / 2) { // a smaller one says nothing about how fast large epochs run
      val measured = records.toDouble / math.max(millis, 1L)
      rate = if (rate == 0.0) measured else 0.5 * rate + 0.5 * measured
      val wanted = (rate * targetMs).toLong
      limitRecords = math.max(Smallest, math.min(math.min(wanted, limitRecords * 3), Largest))
    }
}

object EpochPacer {
  private val DefaultTargetMs = 3000L
  private val FirstLimit = 50000L
  private val Smallest = 1000L
  private val Largest = 5000000L

  private val pacers = new ConcurrentHashMap[String, EpochPacer]()
  def of(subTopology: String): EpochPacer = pacers.computeIfAbsent(subTopology, _ => new EpochPacer)

  def clear(): Unit = pacers.clear()
}
