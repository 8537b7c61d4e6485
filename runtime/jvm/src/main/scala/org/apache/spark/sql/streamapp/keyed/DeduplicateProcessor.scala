// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{SpecificInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.types.{DataType, LongType}

/**
 * Lets a record pass unless one with its key has passed that is at most `within` away from it. The store has the time of
 * the latest record that has passed, for each key.
 *
 * A record that is older than its partition's time by more than `within` passes unseen. So an entry that is older than the
 * time of all partitions by more than twice `within` is out of reach of any record: it can be swept at any time.
 */
private[keyed] final class DeduplicateProcessor(node: Deduplicate, task: TaskAtWork) extends Processor {
  private var store: StateStore = _
  private val keyOf = node.key.projection
  private val stored = new SpecificInternalRow(Seq(LongType))
  private val valueOf = UnsafeProjection.create(Array[DataType](LongType))
  private var sweptAt = StreamTimes.Unknown

  override def begin(): Unit = store = task.store(node.name)

  override def receive(none: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit = {
    val key = keyOf(row)
    if (row.getBoolean(node.deletedAt) || NoKey(key) || time < task.now - node.within || isFirst(key, time))
      forward(null, row, null, time)
  }

  private def isFirst(key: UnsafeRow, time: Long): Boolean = {
    val found = store.get(key)
    val isFirst = found == null || math.abs(time - found.getLong(0)) > node.within
    if (isFirst && (found == null || time > found.getLong(0))) {
      stored.setLong(0, time)
      store.put(key, valueOf(stored))
    }
    isFirst
  }

  override def forgets: Boolean = true

  /** Scans the whole store, but only when time has gone on by `within` since the last scan. */
  override def forget(closing: Closing, fresh: Boolean): Unit = {
    val closed = closing.after
    if (closed != StreamTimes.Unknown && (sweptAt == StreamTimes.Unknown || closed - sweptAt > node.within)) {
      val all = store.iterator(StateStore.DEFAULT_COL_FAMILY_NAME)
      try all.foreach(pair => if (pair.value.getLong(0) < closed - 2 * node.within) store.remove(pair.key))
      finally all.close()
      sweptAt = closed
    }
  }
}
