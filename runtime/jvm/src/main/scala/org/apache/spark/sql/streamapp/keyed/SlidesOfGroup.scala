// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{JoinedRow, UnsafeRow}

/**
 * The sliding windows that a group's panes make.
 *
 * @param panes in the order of their times
 */
private[keyed] final class SlidesOfGroup(slides: Slides, panes: IndexedSeq[Pane]) {

  /** All windows of the group, by the times that make them. */
  def all: Iterator[Slide] = panes.iterator.map(_.place).distinct
    .flatMap(place => madeBy(place, slides.before(place).end) ++ madeBy(place, slides.behind(place).end))

  /** The window, among those with that end, that records of a time make; none if another time makes it, or nothing is in it. */
  def madeBy(place: Long, end: Long): Option[Slide] =
    if (end == place) Option.when(endsAt(place))(slides.before(place))
    else Some(slides.behind(place)).filter(slide => slide.end == end && !endsAt(end) && within(slide).hasNext)

  /** Whether a window ends at that time: some record of that time was not late for it. */
  private def endsAt(place: Long): Boolean = from(place).takeWhile(_.place == place).exists(_.from == place)

  /** The panes that count in a window. */
  def within(slide: Slide): Iterator[Pane] = from(slide.start).takeWhile(_.place <= slide.end).filter(_.from <= slide.end)

  private def from(place: Long): Iterator[Pane] = {
    var (low, high) = (0, panes.length)
    while (low < high) {
      val middle = (low + high) >>> 1
      if (panes(middle).place < place) low = middle + 1 else high = middle
    }
    Iterator.range(low, panes.length).map(panes)
  }
}

/** Merges panes. For one thread. */
private[keyed] final class PaneMerge(buffers: AggregateBuffers) {
  private val groupAndBuffer = new JoinedRow

  /** Returns the merged buffer of all panes. */
  def of(group: UnsafeRow, panes: Iterator[Pane]): InternalRow = {
    val buffer = buffers.fromState(panes.next().buffer)
    panes.foreach(pane => buffers.merge(buffer, groupAndBuffer(group, pane.buffer)))
    buffer
  }
}
