// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.util.{LinkedHashMap => JLinkedHashMap}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.StateStore

/**
 * Aggregates the records of groups in the order in which they come. A group is read and written once per epoch, and sends its
 * change then; a lookup before that sees all records until now.
 *
 * With a ttl, a group whose latest record has expired by the time of the record under way does not exist any more: the record begins
 * it anew, unless it is as old itself. A group is deleted, and the deletion is sent, when the time of all partitions has come there.
 */
private[keyed] final class GroupProcessor(node: Group, task: TaskAtWork) extends Processor {
  private var store: StateStore = _
  private val passes = new Condition(node.rows.condition)
  private val rowOf = node.rows.projection
  private val keyOf = UnsafeProjection.create(node.key)
  private val updates = new RowUpdates(node.aggregates)
  private val Seq(buffers, ofOld, ofFound) = Seq.fill(3)(new AggregateBuffers(node.aggregates.buffers))
  private val held = new JLinkedHashMap[UnsafeRow, HeldGroup]()
  private var heldBytes = 0L
  /** The group whose change is being sent. */
  private var forwarding: Option[HeldGroup] = None
  private val expiry = node.ttl.map(_.open)

  override def begin(): Unit = {
    store = task.store(node.name)
    expiry.foreach(_.begin(store))
  }

  override def receive(none: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit =
    if (!row.getBoolean(node.deletedAt) && passes(row)) {
      val columns = rowOf(row)
      val key = keyOf(columns)
      if (!NoKey(key)) {
        val found = group(key)
        val isGone = found.time == StreamTimes.Unknown || isOver(found.time)
        if (!isGone || !isOver(time)) {
          if (isOver(found.time)) found.reset(buffers.fresh())
          updates.add(found.buffer, columns)
          found.time = math.max(found.time, time)
          heldBytes += columns.getSizeInBytes
        }
      }
    }

  private def isOver(time: Long): Boolean = time != StreamTimes.Unknown && expiry.exists(_.isOver(time, task.now))

  private def group(key: UnsafeRow): HeldGroup = {
    val found = held.get(key)
    if (found != null) found
    else {
      val kept = key.copy()
      val stored = store.get(kept)
      val opened =
        if (stored == null) new HeldGroup(kept, buffers.fresh(), null, StreamTimes.Unknown)
        else {
          val old = ofOld.result(kept, ofOld.fromState(stored)).copy()
          new HeldGroup(kept, buffers.fromState(stored), old, timeOf(old))
        }
      held.put(kept, opened)
      if (stored != null) heldBytes += stored.getSizeInBytes
      opened
    }
  }

  override def gathers: Boolean = true
  override def holds: Boolean = !held.isEmpty
  override def isFull: Boolean = Held.isFull(held.size, heldBytes)

  override def letGo(): Unit = {
    val first = held.entrySet.iterator
    val group = first.next().getValue
    first.remove()
    if (held.isEmpty) heldBytes = 0
    // A group has not changed where all of its records were too old.
    if (group.time != StreamTimes.Unknown) {
      forwarding = Some(group)
      store.put(group.key, buffers.toState(group.buffer))
      expiry.foreach(_.note(group.key, group.time, Option(group.old).map(timeOf)))
      forward(group.key, buffers.result(group.key, group.buffer), group.old, group.time)
      forwarding = None
    }
  }

  private def timeOf(row: InternalRow): Long = row.getLong(node.timeAt)

  override def get(key: UnsafeRow): InternalRow = {
    val found = held.get(key)
    if (found == null) Option(stored(key)).filterNot(row => isOver(timeOf(row))).orNull
    else if (found.time == StreamTimes.Unknown || isOver(found.time)) null
    else ofFound.result(key, found.buffer)
  }

  override def forwarded(key: UnsafeRow): InternalRow = {
    val found = held.get(key)
    if (found == null) stored(key) else found.old
  }

  override def before(key: UnsafeRow): InternalRow = forwarding.filter(_.key == key).fold(forwarded(key))(_.old)

  override def forgets: Boolean = expiry.nonEmpty

  override def forget(closing: Closing, fresh: Boolean): Unit = expiry.foreach { expiry =>
    expiry.over(closing, fresh, key => Option(stored(key)).map(timeOf)).foreach { key =>
      task.nextChange()
      val gone = new HeldGroup(key.copy(), null, stored(key).copy(), StreamTimes.Unknown)
      forwarding = Some(gone)
      store.remove(key)
      forward(gone.key, null, gone.old, timeOf(gone.old) + expiry.ttl)
      forwarding = None
    }
  }

  override def due: Long = expiry.fold(Long.MaxValue)(_.due)

  private def stored(key: UnsafeRow): InternalRow = {
    val found = store.get(key)
    if (found == null) null else ofFound.result(key, ofFound.fromState(found))
  }
}

/**
 * A group that has had records in the epoch.
 *
 * @param old its row before those records
 * @param time the event time of its latest record; unknown before the first
 */
private final class HeldGroup(val key: UnsafeRow, var buffer: InternalRow, val old: InternalRow, var time: Long) {
  /** Begins the group anew. */
  def reset(fresh: InternalRow): Unit = {
    buffer = fresh
    time = StreamTimes.Unknown
  }
}

/** Whether all columns of a key are null: its record is of no row. A key with some nulls is of one. */
private[keyed] object NoKey {
  def apply(key: UnsafeRow): Boolean = {
    var column = 0
    while (column < key.numFields && key.isNullAt(column)) column += 1
    column == key.numFields
  }
}
