// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.StateStore

/**
 * Holds the changes of a table back: the first change of a row begins to wait, and later changes of that row replace it. When the time
 * of all partitions has come to the end of the wait, one change goes on, from the row that readers know to the current row.
 *
 * The store has the waiting rows: since when each waits, and the row that readers know. The current row is in the table.
 */
private[keyed] final class SuppressProcessor(node: Suppress, table: Processor, task: TaskAtWork) extends Processor {
  private val limit = node.limit.open
  private val valueOf = UnsafeProjection.create(node.value)
  private val (known, since) = (new GenericInternalRow(1), new GenericInternalRow(1))
  private val sinceAndKnown = new JoinedRow(since, known)
  private var store: StateStore = _
  /** The key whose change goes on now, and the row that readers know. */
  private var going: Option[(UnsafeRow, InternalRow)] = None

  override def begin(): Unit = {
    store = task.store(node.name)
    limit.begin(store)
  }

  override def receive(key: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit = if (store.get(key) == null) {
    since.update(0, time)
    known.update(0, old)
    store.put(key, valueOf(sinceAndKnown))
    limit.note(key, time, None)
  }

  override def get(key: UnsafeRow): InternalRow = forwarded(key)

  override def forwarded(key: UnsafeRow): InternalRow = {
    val waiting = store.get(key)
    // A change that is on its way has not come here yet: then readers know the row before it.
    if (waiting == null) table.before(key) else knownOf(waiting)
  }

  override def before(key: UnsafeRow): InternalRow = going.filter(_._1 == key).fold(forwarded(key))(_._2)

  private def knownOf(waiting: UnsafeRow): InternalRow = if (waiting.isNullAt(1)) null else waiting.getStruct(1, node.width)

  override def forgets: Boolean = true

  override def forget(closing: Closing, fresh: Boolean): Unit =
    limit.over(closing, fresh, key => Option(store.get(key)).map(_.getLong(0))).foreach { next =>
      val key = next.copy()
      val waiting = store.get(key).copy()
      val (row, old) = (table.forwarded(key), knownOf(waiting))
      task.nextChange()
      store.remove(key)
      going = Some(key -> old)
      if (row != null || old != null) forward(key, row, old, if (row == null) waiting.getLong(0) + limit.ttl else row.getLong(node.timeAt))
      going = None
    }

  override def due: Long = limit.due
}
