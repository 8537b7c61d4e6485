// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.streaming.state.StateStore

/**
 * The work of one task of [[KeyedSessionsExec]]: reads the sessions of a group once, adds what has come, and writes them back.
 * Behind the groups come the sessions that close.
 */
private[keyed] final class SessionsOfTask(store: StateStore, incoming: Iterator[InternalRow], sessions: Sessions,
    columns: Seq[Attribute], aggregates: RowAggregates, state: SessionState, output: Seq[Attribute], times: TaskClosing)
  extends Iterator[InternalRow] {

  private val rows = incoming.buffered
  private val (timeAt, streamTimeAt) = (columns.length, columns.length + 1)
  private val groupOf = UnsafeProjection.create(
    columns.zipWithIndex.map { case (column, i) => BoundReference(i, column.dataType, column.nullable) })
  private val buffers = new AggregateBuffers(aggregates.buffers)
  private val updates = new RowUpdates(aggregates)
  private val resultOf = UnsafeProjection.create(output.map(_.dataType).toArray)
  private val head = new GenericInternalRow(KeyedSessions.Head.length)
  private val noResult = new GenericInternalRow(aggregates.buffers.results.length)
  private val (withGroup, whole, groupAndBuffer) = (new JoinedRow, new JoinedRow, new JoinedRow)
  private var results: Iterator[InternalRow] = Iterator.empty
  private var closing = false
  private var committed = false

  override def hasNext: Boolean = {
    while (!results.hasNext && rows.hasNext) results = ofGroup()
    if (!results.hasNext && !closing) {
      closing = true
      results = close()
    }
    val more = results.hasNext
    if (!more && !committed) {
      store.commit()
      committed = true
    }
    more
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    results.next()
  }

  private def ofGroup(): Iterator[InternalRow] = {
    val key = groupOf(rows.head).copy()
    val group = new Group(key)
    def late = Iterator.continually(()).takeWhile(_ => rows.hasNext && groupOf(rows.head) == key)
      .filterNot(_ => group.add(rows.next())).map(_ => row(key, 0, 0, isLate = true, isGone = false, noResult))
    late ++ group.save()
  }

  private def close(): Iterator[InternalRow] = {
    val Closing(before, after) = times.ask()
    val over = state.over(before, after)
    val told = if (sessions.isFinal) over.map { case (group, found) =>
      row(group, found.start, found.end, isLate = false, isGone = false, buffers.result(group, buffers.fromState(found.buffer)))
    } else {
      over.foreach(_ => ())
      Iterator.empty
    }
    told ++ {
      times.due.add(state.earliest(after))
      Iterator.empty
    }
  }

  private def row(group: InternalRow, start: Long, end: Long, isLate: Boolean, isGone: Boolean, values: InternalRow): InternalRow = {
    head.update(0, start)
    head.update(1, end)
    head.update(2, isLate)
    head.update(3, isGone)
    resultOf(whole(withGroup(head, group), values))
  }

  /** The sessions of one group, in the order of their begins. */
  private final class Group(key: UnsafeRow) {
    private final class Session(val stored: Option[StoredSession], var start: Long, var end: Long, val buffer: InternalRow) {
      var changed = false
    }
    private val before = ArrayBuffer.empty[StoredSession]
    private var open = state.ofGroup(key).map { found =>
      before += found.copy(buffer = null)
      new Session(Some(before.last), found.start, found.end, buffers.fromState(found.buffer))
    }.toSeq.sortBy(session => (session.start, session.end))

    /** Whether the row is in one of them now; else it is late. */
    def add(row: InternalRow): Boolean = {
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
        // Of a key that comes in several partitions, one that is over for this one may have the very same begin and end.
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

    /** @return what to tell: first of those that are gone, under the key that they had, then of those that have changed */
    def save(): Iterator[InternalRow] = {
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
          .map(session => row(key, session.start, session.end, isLate = false, isGone = true, noResult)) ++
          changed.iterator.map { session =>
            row(key, session.start, session.end, isLate = false, isGone = false, buffers.result(key, session.buffer))
          }
      }
    }
  }
}
