// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.streaming.state.StateStore

/** The state of one group while a task reads the group's rows. */
private[keyed] trait OpenGroup {
  /** Adds the row to its windows. Returns false if it is late for all of them. */
  def add(row: InternalRow): Boolean

  /** About how much memory the stored state of the group takes. */
  def bytes: Long

  /** Writes back the changes. @return the results, each good until the next */
  def save(): Iterator[InternalRow]
}

private[keyed] object OpenGroup {
  /** The size of a window beside its buffer, in bytes. */
  val Overhead = 200L
}

/** The windows in a store that records have made. */
private[keyed] trait RecordWindowState {
  /** Begins an epoch, with the store at its version. */
  def begin(store: StateStore): Unit

  /** The time at which the next thing is over, with time at `closed`; Long.MaxValue when nothing is open. */
  def earliest(closed: Long): Long
}

/**
 * The windows that records make, by groups, in the store of one task. The results are rows of [[RecordWindows]]. For one
 * thread.
 *
 * @param columns the columns of the group: the first of the rows that come; then come event time and stream time
 * @param output the output of [[RecordWindows]]
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
   * Removes the windows that are over, and those that are not kept any more. To be called when all records of the epoch were read.
   *
   * @param fresh whether an earlier version of the app may have kept windows for longer
   * @return the results, each good until the next
   */
  def close(closing: Closing, fresh: Boolean): Iterator[InternalRow]

  final def earliest(closed: Long): Long = state.earliest(closed)

  /** The row with the result of a window, as of the latest of its records. */
  protected final def result(group: UnsafeRow, start: Long, end: Long, latest: Long, buffer: InternalRow): InternalRow =
    windowRow(group, start, end, latest, isGone = false, buffers.result(group, buffer))

  /** The row that reports that a window is gone. */
  protected final def gone(group: UnsafeRow, start: Long, end: Long, latest: Long): InternalRow =
    windowRow(group, start, end, latest, isGone = true, noResult)

  private def windowRow(group: UnsafeRow, start: Long, end: Long, latest: Long, isGone: Boolean, values: InternalRow): InternalRow = {
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
