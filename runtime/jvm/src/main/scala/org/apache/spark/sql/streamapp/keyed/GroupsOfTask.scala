// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.streaming.state.StateStore

/** What a task has of one group while it reads the group's rows. */
private[keyed] trait OpenGroup {
  /** Whether the row is in some window now; else it is late. */
  def add(row: InternalRow): Boolean

  /** Writes back what has changed. @return what there is to tell, each good until the next */
  def save(): Iterator[InternalRow]
}

/**
 * The work of one task of [[RecordWindowsExec]]: what it keeps of a group is read once, changed by the group's rows, and written
 * back. Behind the groups come the windows that close.
 *
 * @param recordAt where a row has the columns of a late record; those of its group are the first, then come event time and stream time
 */
private[keyed] abstract class GroupsOfTask(store: StateStore, incoming: Iterator[InternalRow], columns: Seq[Attribute],
    record: Seq[Attribute], recordAt: Int, aggregates: RowAggregates, output: Seq[Attribute], times: TaskClosing) extends Iterator[InternalRow] {

  protected val timeAt: Int = columns.length
  protected val streamTimeAt: Int = columns.length + 1
  protected val buffers = new AggregateBuffers(aggregates.buffers)
  protected val updates = new RowUpdates(aggregates)
  private val rows = incoming.buffered
  private val groupOf = UnsafeProjection.create(
    columns.zipWithIndex.map { case (column, i) => BoundReference(i, column.dataType, column.nullable) })
  private val resultOf = UnsafeProjection.create(output.map(_.dataType).toArray)
  private val head = new GenericInternalRow(RecordWindows.Head.length)
  private val recordOf = UnsafeProjection.create(
    record.zipWithIndex.map { case (column, i) => BoundReference(recordAt + i, column.dataType, column.nullable) })
  private val noRecord = new GenericInternalRow(record.length)
  private val noResult = new GenericInternalRow(aggregates.buffers.results.length)
  private val (withGroup, withRecord, whole) = (new JoinedRow, new JoinedRow, new JoinedRow)
  private var results: Iterator[InternalRow] = Iterator.empty
  private var closing = false
  private var committed = false

  protected def open(group: UnsafeRow): OpenGroup

  /**
   * Takes out what is over, and what is not kept any more.
   *
   * @param fresh whether an earlier version of the app may have kept for longer
   * @return what there is to tell of it, each good until the next
   */
  protected def close(before: Long, after: Long, fresh: Boolean): Iterator[InternalRow]

  /** When the next thing is over, with time at `closed`; Long.MaxValue when nothing is open. */
  protected def earliest(closed: Long): Long

  override def hasNext: Boolean = {
    while (!results.hasNext && rows.hasNext) results = ofGroup()
    if (!results.hasNext && !closing) {
      closing = true
      val Closing(before, after) = times.ask()
      results = close(before, after, times.fresh) ++ {
        times.due.add(earliest(after))
        Iterator.empty
      }
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
    val group = groupOf(rows.head).copy()
    val opened = open(group)
    val late = Iterator.continually(()).takeWhile(_ => rows.hasNext && groupOf(rows.head) == group).map(_ => rows.next())
      .filterNot(opened.add).map(row => told(group, 0, 0, 0, isLate = true, isGone = false, recordOf(row), noResult))
    late ++ opened.save()
  }

  /** A window has this result, as of the latest of its records. */
  protected def result(group: UnsafeRow, start: Long, end: Long, latest: Long, buffer: InternalRow): InternalRow =
    told(group, start, end, latest, isLate = false, isGone = false, noRecord, buffers.result(group, buffer))

  /** There is no such window any more. */
  protected def gone(group: UnsafeRow, start: Long, end: Long, latest: Long): InternalRow =
    told(group, start, end, latest, isLate = false, isGone = true, noRecord, noResult)

  private def told(group: UnsafeRow, start: Long, end: Long, latest: Long, isLate: Boolean, isGone: Boolean,
      late: InternalRow, values: InternalRow): InternalRow = {
    head.update(0, start)
    head.update(1, end)
    head.update(2, latest)
    head.update(3, isLate)
    head.update(4, isGone)
    resultOf(whole(withRecord(withGroup(head, group), late), values))
  }
}
