// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.util.{LinkedHashMap => JLinkedHashMap}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.StateStore

/**
 * Aggregates the records of groups in the order in which they come. A group is read and written once per epoch, and says
 * then what has become of it; whoever looks it up before sees all records until now.
 */
private[keyed] final class GroupProcessor(node: Group, task: TaskAtWork) extends Processor {
  import GroupProcessor._

  private var store: StateStore = _
  private val passes = new Condition(node.rows.condition)
  private val rowOf = node.rows.projection
  private val keyOf = UnsafeProjection.create(node.key)
  private val updates = new RowUpdates(node.aggregates)
  private val Seq(buffers, ofOld, ofFound) = Seq.fill(3)(new AggregateBuffers(node.aggregates.buffers))
  private val held = new JLinkedHashMap[UnsafeRow, HeldGroup]()
  private var heldBytes = 0L
  /** The group that says now what has become of it. */
  private var saying: Option[HeldGroup] = None

  override def begin(): Unit = store = task.store(node.name)

  override def receive(none: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit =
    if (!row.getBoolean(node.deletedAt) && passes(row)) {
      val columns = rowOf(row)
      val key = keyOf(columns)
      if (!NoKey(key)) {
        updates.add(group(key).buffer, columns)
        heldBytes += columns.getSizeInBytes
      }
    }

  private def group(key: UnsafeRow): HeldGroup = {
    val found = held.get(key)
    if (found != null) found
    else {
      val kept = key.copy()
      val stored = store.get(kept)
      val opened =
        if (stored == null) new HeldGroup(kept, buffers.fresh(), null)
        else new HeldGroup(kept, buffers.fromState(stored), ofOld.result(kept, ofOld.fromState(stored)).copy())
      held.put(kept, opened)
      if (stored != null) heldBytes += stored.getSizeInBytes
      opened
    }
  }

  override def holds: Boolean = !held.isEmpty
  override def isFull: Boolean = held.size >= MostGroups || heldBytes >= MostBytes

  override def letGo(): Unit = {
    val first = held.entrySet.iterator
    val group = first.next().getValue
    first.remove()
    if (held.isEmpty) heldBytes = 0
    saying = Some(group)
    store.put(group.key, buffers.toState(group.buffer))
    val result = buffers.result(group.key, group.buffer)
    forward(group.key, result, group.old, result.getLong(node.timeAt))
    saying = None
  }

  override def get(key: UnsafeRow): InternalRow = {
    val found = held.get(key)
    if (found == null) stored(key) else ofFound.result(key, found.buffer)
  }

  override def told(key: UnsafeRow): InternalRow = {
    val found = held.get(key)
    if (found == null) stored(key) else found.old
  }

  override def before(key: UnsafeRow): InternalRow = saying.filter(_.key == key).fold(told(key))(_.old)

  private def stored(key: UnsafeRow): InternalRow = {
    val found = store.get(key)
    if (found == null) null else ofFound.result(key, ofFound.fromState(found))
  }
}

private object GroupProcessor {
  // An epoch that changes more groups in a partition lets them say so several times: each result is right for its time.
  val MostGroups = 100000
  val MostBytes = 32L << 20
}

/** A group that has had records in the epoch; `old` is its row before them. */
private final class HeldGroup(val key: UnsafeRow, val buffer: InternalRow, val old: InternalRow)

/** Whether a key has nothing in any of its columns: its record is of no row. One with some nulls is of one. */
private[keyed] object NoKey {
  def apply(key: UnsafeRow): Boolean = {
    var column = 0
    while (column < key.numFields && key.isNullAt(column)) column += 1
    column == key.numFields
  }
}
