// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable

/**
 * Sizes epochs by the time they take, not by the lag: behind a backlog an epoch takes about three seconds. So memory stays
 * bounded, a stop or a scaling step is never far away, and nothing needs tuning.
 *
 * A step controller, not a model of the rate: an epoch has a fixed part and a part that grows with its keys rather than
 * its records, so that "records per second" says little about an epoch of another size. What ends well before the
 * target may be twice as large next time; what takes much longer is cut in proportion. The first epoch of a process,
 * which compiles and connects, does not count.
 */
final class EpochPacer {
  import EpochPacer._

  @volatile private var limitRecords = FirstLimit
  @volatile private var draining = false
  private var warm = false
  private val expected = mutable.Map[AnyRef, Long]()
  private val input = mutable.Map[AnyRef, Long]()
  private var startedNs = 0L

  /** Most records that the next epoch may take from each of the sub-topology's sources. */
  def limit: Long = if (draining) 0L else limitRecords

  def drain(): Unit = draining = true

  /** A source will have so many records for the next epoch; returns what all sources have told so far. */
  def expect(source: AnyRef, records: Long): Long = synchronized {
    expected(source) = records
    expected.values.sum
  }

  /** A source is about to read so many records in the epoch that starts now. */
  def planned(source: AnyRef, records: Long): Unit = synchronized {
    if (input.isEmpty) startedNs = System.nanoTime()
    input(source) = records
    expected.clear()
  }

  /** The epoch is committed: learn from it. */
  def epochDone(): Unit = synchronized {
    if (input.nonEmpty) {
      observe(input.values.sum, (System.nanoTime() - startedNs) / 1000000)
      input.clear()
    }
  }

  private[streamapp] def observe(records: Long, millis: Long): Unit = {
    val full = records >= limitRecords / 2 // a smaller one says nothing about how large ones run
    if (full && warm) {
      val wanted =
        if (millis < TargetMs * RoomBelow) limitRecords * 2
        else if (millis > TargetMs * RoomAbove) limitRecords * TargetMs / millis
        else limitRecords
      limitRecords = math.max(Smallest, math.min(wanted, Largest))
    }
    warm ||= records > 0
  }
}

object EpochPacer {
  private val TargetMs = 3000L
  private val RoomBelow = 0.75
  private val RoomAbove = 1.6
  private val FirstLimit = 200000L
  private val Smallest = 1000L
  private val Largest = 5000000L

  private val pacers = new ConcurrentHashMap[String, EpochPacer]()
  def of(subTopology: String): EpochPacer = pacers.computeIfAbsent(subTopology, _ => new EpochPacer)

  def clear(): Unit = pacers.clear()
}
