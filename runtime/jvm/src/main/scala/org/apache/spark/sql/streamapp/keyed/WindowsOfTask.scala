// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.streaming.state.StateStore

/** What a task has of one group while it reads the group's rows. */
private[keyed] trait OpenGroup {
  /** Whether the row is in some window now; else it is late. */
  def add(row: InternalRow): Boolean

  /** About how much memory it takes what was there of the group. */
  def bytes: Long

  /** Writes back what has changed. @return what there is to tell, each good until the next */
  def save(): Iterator[InternalRow]
}

private[keyed] object OpenGroup {
  /** What a window takes beside its buffer, in bytes. */
  val Overhead = 200L
}

/** What a store has of windows that records have made. */
private[keyed] trait RecordWindowState {
  /** An epoch begins, with the store at its version. */
  def begin(store: StateStore): Unit

  /** When the next thing is over, with time at `closed`; Long.MaxValue when nothing is open. */
  def earliest(closed: Long): Long
}

/**
 * The windows that records of groups make, in the store of one task. What there is to tell of them are rows of
 * [[RecordWindows]]. For one thread.
 *
 * @param columns of the group: the first of the rows that come; then come event time and stream time
 * @param output of [[RecordWindows]]
 */
private[keyed] abstract class WindowsOfTask(columns: Seq[Attribute], aggregates: RowAggregates, output: Seq[Attribute]) {
  protected val timeAt: Int = columns.length
  protected val streamTimeAt: Int = columns.length + 1
  protected val buffers = new AggregateBuffers(aggregates.buffers)
  protected val updates = new RowUpdates(aggregates)
  private val resultOf = UnsafeProjection.create(output.map(_.dataType).toArray)
  private val head = new GenericInternalRow(RecordWindows.Head.length)
  private val noResult = new GenericInternalRow(aggregates.buffers.results.length)
  private val (withGroup, whole) = (new JoinedRow, new JoinedRow)

  protected def state: RecordWindowState

  final def begin(store: StateStore): Unit = state.begin(store)

  def open(group: UnsafeRow): OpenGroup

  /**
   * Takes out what is over, and what is not kept any more. To be asked when all records of the epoch were read.
   *
   * @param fresh whether an earlier version of the app may have kept for longer
   * @return what there is to tell of it, each good until the next
   */
  def close(closing: Closing, fresh: Boolean): Iterator[InternalRow]

  final def earliest(closed: Long): Long = state.earliest(closed)

  /** A window has this result, as of the latest of its records. */
  protected final def result(group: UnsafeRow, start: Long, end: Long, latest: Long, buffer: InternalRow): InternalRow =
    told(group, start, end, latest, isGone = false, buffers.result(group, buffer))

  /** There is no such window any more. */
  protected final def gone(group: UnsafeRow, start: Long, end: Long, latest: Long): InternalRow =
    told(group, start, end, latest, isGone = true, noResult)

  private def told(group: UnsafeRow, start: Long, end: Long, latest: Long, isGone: Boolean, values: InternalRow): InternalRow = {
    head.update(0, start)
    head.update(1, end)
    head.update(2, latest)
    head.update(3, isGone)
    resultOf(whole(withGroup(head, group), values))
  }
}

private[keyed] object WindowsOfTask {
  def apply(rule: WindowRule, columns: Seq[Attribute], aggregates: RowAggregates, output: Seq[Attribute]): WindowsOfTask =
    rule match {
      case sessions: Sessions => new SessionsOfTask(sessions, columns, aggregates, output)
      case slides: Slides => new SlidesOfTask(slides, columns, aggregates, output)
    }
}
