// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}

/** Sliding windows: each result of a window is merged from its panes. */
private[keyed] final class SlidesOfTask(slides: Slides, columns: Seq[Attribute], aggregates: RowAggregates, output: Seq[Attribute])
  extends WindowsOfTask(columns, aggregates, output) {

  override protected val state = new PaneState(slides, PaneLayout(columns, aggregates.buffers.bufferSchema))
  private val merge = new PaneMerge(buffers)

  override def open(group: UnsafeRow): OpenGroup = new Group(group)

  override def close(closing: Closing, fresh: Boolean): Iterator[InternalRow] = {
    val Closing(before, after) = closing
    state.due(before, after).flatMap { look =>
      val behind = slides.behind(look.place)
      val panes = state.ofGroup(look.group)
      val ofGroup = new SlidesOfGroup(slides, panes)
      val results = if (slides.isFinal) ofGroup.madeBy(look.place, look.at).map(ofWindow(look.group, _, ofGroup)) else None
      if (look.at >= behind.end) {
        val keptTo = behind.end + slides.retention
        // An earlier version may have had another retention. A time that has gone by is not looked at again.
        if (look.at < keptTo && keptTo > slides.lastEnd(after)) state.look(look.group, keptTo, look.place)
        else panes.filter(_.place == look.place).foreach(state.remove(look.group, _))
      }
      results
    } ++ {
      if (after != before) state.noteClosed(after)
      Iterator.empty
    }
  }

  private def ofWindow(group: UnsafeRow, slide: Slide, ofGroup: SlidesOfGroup): InternalRow = {
    val within = ofGroup.within(slide).toSeq
    result(group, slide.start, slide.end, within.last.place, merge.of(group, within.iterator))
  }

  private final class Group(key: UnsafeRow) extends OpenGroup {
    private val stored = state.ofGroup(key)
    private val there = stored.map(pane => (pane.place, pane.from) -> pane).toMap
    override val bytes: Long = stored.map(_.buffer.getSizeInBytes + OpenGroup.Overhead).sum
    private val changed = mutable.TreeMap.empty[(Long, Long), InternalRow]

    override def add(row: InternalRow): Boolean = {
      val (place, reached) = (slides.placeOf(row.getLong(timeAt)), row.getLong(streamTimeAt))
      val taken = !slides.isLate(place, reached)
      if (taken) {
        val where = (place, slides.countsFrom(place, reached))
        val buffer = changed.getOrElseUpdate(where, there.get(where).fold(buffers.fresh())(pane => buffers.fromState(pane.buffer)))
        updates.add(buffer, row)
      }
      taken
    }

    override def save(): Iterator[InternalRow] = {
      val known = stored.iterator.map(_.place).toSet
      val news = changed.iterator.map { case ((place, from), buffer) => Pane(place, from, buffers.toState(buffer).copy()) }.toIndexedSeq
      news.foreach { pane =>
        state.put(key, pane.place, pane.from, pane.buffer)
        if (!known(pane.place)) state.look(key, slides.behind(pane.place).end, pane.place)
        if (slides.isFinal && pane.from == pane.place) state.look(key, pane.place, pane.place)
      }
      if (slides.isFinal) Iterator.empty
      else {
        val kept = stored.filterNot(pane => changed.contains((pane.place, pane.from)))
        val ofGroup = new SlidesOfGroup(slides, (kept ++ news).sorted)
        val appeared = news.iterator.map(_.place).filterNot(known).map(slides.behind).toSet
        ofGroup.all.filter { slide =>
          appeared(slide) || ofGroup.within(slide).exists(pane => changed.contains((pane.place, pane.from)))
        }.map(ofWindow(key, _, ofGroup))
      }
    }
  }
}
