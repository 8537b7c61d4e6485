// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.StateStore

/** A table that knows a row as it was before the change on its way, where a join may ask for it. */
private[keyed] abstract class StoredRows(task: TaskAtWork) extends Processor {
  private val remembers = task.graph.hasDiamonds
  private var changedIn = 0L
  private var changedKey: UnsafeRow = _
  private var rowBefore: InternalRow = _

  /** Notes the row of a key that is about to change. */
  protected final def remember(key: UnsafeRow, row: InternalRow): Unit =
    if (remembers && (changedIn != task.change || changedKey != key)) {
      changedIn = task.change
      changedKey = key.copy()
      rowBefore = row
    }

  override final def before(key: UnsafeRow): InternalRow =
    if (changedIn == task.change && changedKey == key) rowBefore else forwarded(key)
}

/**
 * Keeps the latest row of each key; the last change of a key that comes counts, whatever its time (as a KTable's).
 *
 * With a ttl, a row that has expired by the time of the record under way does not exist any more for that record or for an update. It
 * is deleted, and the deletion is sent, when the time of all partitions has come there.
 */
private[keyed] final class TableProcessor(node: Table, task: TaskAtWork) extends StoredRows(task) {
  private var store: StateStore = _
  private val keyOf = node.key.projection
  private val valueOf = node.value.projection
  private val Seq(ofNew, ofFound) = Seq.fill(2)(node.row.projection)
  private val both = new JoinedRow
  private val rows = new RowCache
  private val expiry = node.ttl.map(_.open)

  override def begin(): Unit = {
    store = task.store(node.name)
    rows.begin(store)
    expiry.foreach(_.begin(store))
  }

  override def end(): Unit = rows.end()

  override def receive(none: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit = {
    val key = keyOf(row)
    if (!NoKey(key)) {
      val before = rows.take(key, stored(key))
      if (row.getBoolean(node.deletedAt) || expiry.exists(_.isOver(time, task.now))) delete(key, before, time)
      else {
        remember(key, before)
        val value = valueOf(row)
        store.put(key, value)
        expiry.foreach(_.note(key, time, Option(before).map(timeOf)))
        forward(key, ofNew(both(key, value)), before, time)
      }
    }
  }

  private def delete(key: UnsafeRow, before: InternalRow, time: Long): Unit = if (before != null) {
    remember(key, before)
    store.remove(key)
    forward(key, null, before, time)
  }

  private def timeOf(row: InternalRow): Long = row.getLong(node.timeAt)

  override def get(key: UnsafeRow): InternalRow = {
    val row = forwarded(key)
    if (row != null && expiry.exists(_.isOver(timeOf(row), task.now))) null else row
  }

  override def forwarded(key: UnsafeRow): InternalRow = rows.get(key, stored(key))

  private def stored(key: UnsafeRow): UnsafeRow = {
    val found = store.get(key)
    if (found == null) null else ofFound(both(key, found))
  }

  override def forgets: Boolean = expiry.nonEmpty

  override def forget(closing: Closing, fresh: Boolean): Unit = expiry.foreach { expiry =>
    expiry.over(closing, fresh, key => Option(forwarded(key)).map(timeOf)).foreach { key =>
      task.nextChange()
      val row = rows.take(key, stored(key))
      delete(key, row, timeOf(row) + expiry.ttl)
    }
  }

  override def due: Long = expiry.fold(Long.MaxValue)(_.due)
}

/** Joins as Kafka Streams' KStream-KTable join does: a record without a value takes no part. */
private[keyed] class LookupProcessor(node: Lookup, table: Processor, task: TaskAtWork) extends Processor {
  private val keyOf = node.key.projection
  private val resultOf = node.result.projection
  private val both = new JoinedRow
  private val missing = new GenericInternalRow(node.width)

  override def receive(none: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit =
    if (!row.getBoolean(node.deletedAt)) lookUp(row, time, task.now)

  /** @param now the time from which a table's history reaches back */
  protected final def lookUp(row: InternalRow, time: Long, now: Long): Unit = {
    val key = keyOf(row)
    val found = if (key.anyNull) null else if (node.asOf) table.asOf(key, time, now) else table.get(key)
    if (found != null) forward(null, resultOf(both(row, found)), null, time)
    else if (node.keepsAll) forward(null, resultOf(both(row, missing)), null, time)
  }
}

/** A change of either side is a change of the result, computed with the other side's current row. */
private[keyed] final class TableJoinProcessor(node: TableJoin, left: Processor, right: Processor, task: TaskAtWork, isDiamond: Boolean)
  extends Processor {
  private val Seq(ofNew, ofOld, ofFound) = Seq.fill(3)(node.result.projection)
  private val both = new JoinedRow
  private val (noLeft, noRight) = (new GenericInternalRow(node.left.width), new GenericInternalRow(node.right.width))
  private var forwardedIn = 0L
  private var forwardedKey: UnsafeRow = _
  private var forwardedRow: UnsafeRow = _

  private val fromLeft: Port = (key, row, old, time) => {
    val other = right.forwarded(key)
    change(key, result(row, other, ofNew), if (isDiamond) lastForwarded(key) else result(old, other, ofOld),
      latest(time, other, node.right))
  }
  private val fromRight: Port = (key, row, old, time) => {
    val other = left.forwarded(key)
    change(key, result(other, row, ofNew), if (isDiamond) lastForwarded(key) else result(other, old, ofOld),
      latest(time, other, node.left))
  }

  override def port(number: Int): Port = if (number == 0) fromLeft else fromRight

  override def receive(key: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit =
    throw new UnsupportedOperationException("rows come by one of two ports")

  override def get(key: UnsafeRow): InternalRow = result(left.get(key), right.get(key), ofFound)
  override def forwarded(key: UnsafeRow): InternalRow = result(left.forwarded(key), right.forwarded(key), ofFound)
  override def before(key: UnsafeRow): InternalRow = result(left.before(key), right.before(key), ofFound)

  private def change(key: UnsafeRow, row: UnsafeRow, old: UnsafeRow, time: Long): Unit = {
    // The result has changed at that time, also where one side is gone.
    if (row != null) row.setLong(node.timeAt, time)
    if (isDiamond) {
      forwardedIn = task.change
      forwardedKey = key.copy()
      forwardedRow = if (row == null) null else row.copy()
    }
    if (row != null || old != null) forward(key, row, old, time)
  }

  /** The result that a change replaces. Where one change comes by both sides, it is not the one with the other side's current row. */
  private def lastForwarded(key: UnsafeRow): UnsafeRow =
    if (forwardedIn == task.change && forwardedKey == key) forwardedRow else result(left.before(key), right.before(key), ofOld)

  private def result(one: InternalRow, two: InternalRow, columns: UnsafeProjection): UnsafeRow =
    if ((one == null && (two == null || !node.keepsRight)) || (two == null && !node.keepsLeft)) null
    else columns(both(if (one == null) noLeft else one, if (two == null) noRight else two))

  private def latest(time: Long, other: InternalRow, side: Side): Long =
    if (other == null) time else math.max(time, other.getLong(side.timeAt))
}
