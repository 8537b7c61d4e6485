// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.json4s.{DefaultFormats, Formats, ShortTypeHints}
import org.json4s.jackson.Serialization

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.streaming.state.KeyStateEncoderSpec
import org.apache.spark.sql.types.StructType

/** Windows that records make by their times; times are in microseconds. */
sealed trait WindowRule {
  /** How long after the end of a window a record for it may be read. */
  def grace: Long
  /** How long windows stay in the state after they close. */
  def retention: Long
  /** Whether a window gives one result when it closes, and none before. */
  def isFinal: Boolean
  /** How long after a record the window that it has opened stays open. */
  def lasting: Long
  /** The longest time from a record to the end of a window that it is late for. */
  def span: Long
}

object WindowRule {
  private implicit val formats: Formats =
    DefaultFormats.withHints(ShortTypeHints(List(classOf[Sessions], classOf[Slides]), "kind"))

  /** Reads a rule from JSON, whose field `kind` names the class. */
  def read(text: String): WindowRule = Serialization.read[WindowRule](text)
}

/** How windows that records have made lie in a store. */
private[keyed] trait WindowRows {
  def keys: StructType
  def values: StructType
  def encoding: KeyStateEncoderSpec
}

private[keyed] object WindowRows {
  /** @param group the columns of the group */
  def of(rule: WindowRule, group: Seq[Attribute], buffer: StructType): WindowRows = rule match {
    case _: Sessions => SessionLayout(group, buffer)
    case _: Slides => PaneLayout(group, buffer)
  }
}

/**
 * Sessions.
 *
 * @param gap the longest gap between two records that follow each other in a session
 * @param grace how much longer than the gap a session stays open
 */
final case class Sessions(gap: Long, grace: Long, retention: Long, isFinal: Boolean) extends WindowRule {
  override def lasting: Long = gap + grace + 1
  override def span: Long = 0

  /** Whether a session with this last record is over at that time. */
  def isOver(end: Long, time: Long): Boolean = end + lasting <= time

  /** The time of the last record of the last session that is over at that time. */
  def lastEnd(closed: Long): Long = closed - lasting
}

/**
 * Sliding windows, as in Kafka Streams: for each time of a record in milliseconds, the window that ends there, and the window that
 * begins one millisecond later if it has any record. Both ends are in a window.
 *
 * @param size the longest time between two records of a window
 */
final case class Slides(size: Long, grace: Long, retention: Long, isFinal: Boolean) extends WindowRule {
  import Slides.Tick

  override def lasting: Long = size + Tick + grace + 1
  override def span: Long = size

  /** The place of a record: its time in whole milliseconds. */
  def placeOf(time: Long): Long = Math.floorDiv(time, Tick) * Tick

  /** Whether a record is late for each window that it could be in. */
  def isLate(place: Long, streamTime: Long): Boolean = place + size + grace < streamTime

  /** The earliest end of a window that a record counts in: it is late for those before. */
  def countsFrom(place: Long, streamTime: Long): Long = math.max(place, streamTime - grace)

  /** The window that ends at a record, and the one that begins behind it. */
  def before(place: Long): Slide = Slide(place - size, place)
  def behind(place: Long): Slide = Slide(place + Tick, place + Tick + size)

  /** The end of the last window that is closed at that time. */
  def lastEnd(closed: Long): Long = closed - grace - 1
}

object Slides {
  /** The step of times, a millisecond. */
  val Tick: Long = 1000
}

/** A sliding window. */
final case class Slide(start: Long, end: Long)
