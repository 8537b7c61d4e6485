// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.util.{LinkedHashMap => JLinkedHashMap}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow, UnsafeProjection, UnsafeRow}

/**
 * Aggregates records by group, in windows of event time. The state of a group is read and written once per epoch. When all
 * records are read, the windows close whose time has come.
 */
private[keyed] abstract class WindowedProcessor[V](node: WindowedNode, task: TaskAtWork) extends Processor {
  private val lag = task.graph.heldBefore(node)
  private val late = new LateRows(task, node.late)
  private val passes = new Condition(node.rows.condition)
  private val columnsOf = node.rows.projection
  private val groupOf = UnsafeProjection.create(node.group)
  /** The value beside the row that the columns are computed from. */
  protected val beside = new GenericInternalRow(1)
  private val whole = new JoinedRow().withRight(beside)

  /** The groups or windows that have had records in the epoch. */
  protected val held = new JLinkedHashMap[UnsafeRow, V]()
  protected var heldBytes = 0L
  /** The results to be sent, each good until the next. */
  private var results: Iterator[InternalRow] = Iterator.empty

  /** Adds a row to its group. */
  protected def add(row: InternalRow, columns: UnsafeRow, group: UnsafeRow, time: Long): Unit

  override def receive(none: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit =
    if (!row.getBoolean(node.deletedAt) && passes(whole.withLeft(row))) {
      val columns = columnsOf(whole)
      val group = groupOf(columns)
      if (!NoKey(group)) add(row, columns, group, time)
      heldBytes += columns.getSizeInBytes
    }

  /** Writes back a group or window that is held. @return its results */
  protected def save(key: UnsafeRow, value: V): Iterator[InternalRow]
  /** See [[WindowsOfTask.close]]. */
  protected def close(closing: Closing, fresh: Boolean): Iterator[InternalRow]
  /** See [[WindowsOfTask.earliest]]. */
  protected def earliest(closed: Long): Long

  /** The stream time for the row under way. A row that was held back on its way is late only for windows that are closed. */
  protected final def reached: Long = task.reached(lag)

  /** Sends out the row under way, which is late for that window. */
  protected final def leaveLate(row: InternalRow, start: Long, end: Long): Unit = late.leave(row, start, end, reached)

  override def gathers: Boolean = true
  override def holds: Boolean = !held.isEmpty || results.hasNext
  override def isFull: Boolean = Held.isFull(held.size, heldBytes)

  override def letGo(): Unit = {
    if (!results.hasNext) {
      val first = held.entrySet.iterator
      val entry = first.next()
      first.remove()
      if (held.isEmpty) heldBytes = 0
      results = save(entry.getKey, entry.getValue)
    }
    if (results.hasNext) forward(null, results.next(), null, task.now)
  }

  override def forgets: Boolean = true
  // After the changes that tables let go when time has come for them: they may be in a window that is about to close.
  override def stage: Int = TaskAtWork.Windows
  override def forget(closing: Closing, fresh: Boolean): Unit = results = close(closing.behind(lag), fresh)

  override def due: Long = StreamTimes.dueBehind(earliest(StreamTimes.behind(task.now, lag)), lag)
}

/** Late records on their way out. */
private[keyed] final class LateRows(task: TaskAtWork, exit: LateExit) {
  private val recordOf = exit.record.map(_.projection)
  private val noRecord = new GenericInternalRow(1)
  private val spanAndTime = new GenericInternalRow(3)
  private val withSpan = new JoinedRow().withRight(spanAndTime)

  /** Sends out a row that is late for that window. */
  def leave(row: InternalRow, start: Long, end: Long, reached: Long): Unit = {
    spanAndTime.update(0, start)
    spanAndTime.update(1, end)
    spanAndTime.update(2, reached)
    task.leave(exit.at, recordOf.fold[InternalRow](noRecord)(_(withSpan.withLeft(row))))
  }
}

/** Tumbling and hopping windows: the time of a record decides its windows. */
private[keyed] final class WindowProcessor(node: Windowed, task: TaskAtWork) extends WindowedProcessor[InternalRow](node, task) {
  private val toKey = UnsafeProjection.create(node.keys.schema)
  private val ofKey = node.keys.toGroup
  private val updates = new RowUpdates(node.aggregates)
  private val buffers = new AggregateBuffers(node.aggregates.buffers)
  private val closing = new WindowClosing(node.keys, node.windows)
  private val startOf = new GenericInternalRow(1)
  private val startAndGroup = new JoinedRow

  override def begin(): Unit = closing.begin(task.store(node.name))

  override protected def add(row: InternalRow, columns: UnsafeRow, group: UnsafeRow, time: Long): Unit =
    node.windows.startsOf(time).foreach { start =>
      if (start + node.windows.lasting <= reached) leaveLate(row, start, start + node.windows.size)
      else updates.add(buffer(start, group), columns)
    }

  private def buffer(start: Long, group: UnsafeRow): InternalRow = {
    startOf.update(0, start)
    val key = toKey(startAndGroup(startOf, group))
    val found = held.get(key)
    if (found != null) found
    else {
      val stored = task.store(node.name).get(key)
      if (stored != null) heldBytes += stored.getSizeInBytes
      val opened = if (stored == null) buffers.fresh() else buffers.fromState(stored)
      held.put(key.copy(), opened)
      opened
    }
  }

  override protected def save(key: UnsafeRow, buffer: InternalRow): Iterator[InternalRow] = {
    task.store(node.name).put(key, buffers.toState(buffer))
    if (node.windows.isFinal) Iterator.empty else Iterator.single(buffers.result(ofKey(key), buffer))
  }

  override protected def close(reached: Closing, fresh: Boolean): Iterator[InternalRow] =
    closing.over(reached, fresh).map { case (key, value) => buffers.result(ofKey(key), buffers.fromState(value)) }

  override protected def earliest(closed: Long): Long = closing.earliest(closed)
}

/** Sessions and sliding windows: the records decide where their windows are. */
private[keyed] final class RecordWindowProcessor(node: RecordWindowed, task: TaskAtWork)
  extends WindowedProcessor[OpenGroup](node, task) {

  private val resultOf = node.result.projection
  private val windows = WindowsOfTask(node.rule, node.columns, node.aggregates, node.output)

  override def begin(): Unit = windows.begin(task.store(node.name))

  override def receive(none: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit = {
    beside.update(0, reached)
    super.receive(none, row, old, time)
  }

  override protected def add(row: InternalRow, columns: UnsafeRow, group: UnsafeRow, time: Long): Unit = {
    var opened = held.get(group)
    if (opened == null) {
      val key = group.copy()
      opened = windows.open(key)
      held.put(key, opened)
      heldBytes += opened.bytes
    }
    if (!opened.add(columns)) leaveLate(row, time, time + node.rule.span)
  }

  override protected def save(group: UnsafeRow, opened: OpenGroup): Iterator[InternalRow] = opened.save().map(resultOf(_))
  override protected def close(closing: Closing, fresh: Boolean): Iterator[InternalRow] = windows.close(closing, fresh).map(resultOf(_))
  override protected def earliest(closed: Long): Long = windows.earliest(closed)
}
