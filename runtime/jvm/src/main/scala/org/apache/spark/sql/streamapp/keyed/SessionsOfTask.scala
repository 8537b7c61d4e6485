// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, JoinedRow, UnsafeRow}

/** Sessions: a record merges all sessions that it meets into one. */
private[keyed] final class SessionsOfTask(sessions: Sessions, columns: Seq[Attribute], aggregates: RowAggregates, output: Seq[Attribute])
  extends WindowsOfTask(columns, aggregates, output) {

  override protected val state = new SessionState(sessions, SessionLayout(columns, aggregates.buffers.bufferSchema))
  private val groupAndBuffer = new JoinedRow

  override def open(group: UnsafeRow): OpenGroup = new Group(group)

  override def close(closing: Closing, fresh: Boolean): Iterator[InternalRow] = {
    val Closing(before, after) = closing
    val over = state.over(before, after)
    val results = if (sessions.isFinal) over.map { case (group, found) =>
      result(group, found.start, found.end, found.end, buffers.fromState(found.buffer))
    } else {
      over.foreach(_ => ())
      Iterator.empty
    }
    results ++ {
      state.forget(if (fresh) StreamTimes.Unknown else before, after)
      Iterator.empty
    }
  }

  /** The sessions of one group, in the order of their starts. */
  private final class Group(key: UnsafeRow) extends OpenGroup {
    private final class Session(val stored: Option[StoredSession], var start: Long, var end: Long, val buffer: InternalRow) {
      var changed = false
    }
    private var read = 0L
    private var open = state.ofGroup(key).map { found =>
      read += found.buffer.getSizeInBytes + OpenGroup.Overhead
      new Session(Some(found.copy(buffer = null)), found.start, found.end, buffers.fromState(found.buffer))
    }.toSeq.sortBy(session => (session.start, session.end))
    private val before = open.flatMap(_.stored)
    override def bytes: Long = read

    override def add(row: InternalRow): Boolean = {
      val (time, reached) = (row.getLong(timeAt), row.getLong(streamTimeAt))
      val (near, others) = open.partition { session =>
        time >= session.start - sessions.gap && time <= session.end + sessions.gap && !sessions.isOver(session.end, reached)
      }
      val taken = near.nonEmpty || !sessions.isOver(time, reached)
      if (taken) {
        val session = near.reduceOption(merged).getOrElse(new Session(None, time, time, buffers.fresh()))
        session.start = math.min(session.start, time)
        session.end = math.max(session.end, time)
        session.changed = true
        updates.add(session.buffer, row)
        // A key may come in several partitions: a session that is over for this partition may have the very same begin and end.
        val (same, rest) = others.partition(other => other.start == session.start && other.end == session.end)
        open = (same.foldLeft(session)(merged) +: rest).sortBy(session => (session.start, session.end))
      }
      taken
    }

    private def merged(session: Session, other: Session): Session = {
      buffers.merge(session.buffer, groupAndBuffer(key, buffers.toState(other.buffer)))
      session.end = math.max(session.end, other.end)
      session
    }

    // First the sessions that are gone, under their old keys, then those that have changed.
    override def save(): Iterator[InternalRow] = {
      val kept = open.flatMap(_.stored).map(_.number).toSet
      before.filterNot(session => kept(session.number)).foreach(session => state.remove(key, session.number))
      val changed = open.filter(_.changed)
      changed.foreach { session =>
        val buffer = buffers.toState(session.buffer)
        session.stored match {
          case Some(found) => state.put(key, found.number, session.start, session.end, buffer)
          case None => state.add(key, session.start, session.end, buffer)
        }
      }
      if (sessions.isFinal) Iterator.empty
      else {
        val spans = open.map(session => session.start -> session.end).toSet
        before.iterator.filterNot(session => spans(session.start -> session.end))
          .map(session => gone(key, session.start, session.end, session.end)) ++
          changed.iterator.map(session => result(key, session.start, session.end, session.end, session.buffer))
      }
    }
  }
}
