// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreIterator, UnsafeRowPair}
import org.apache.spark.sql.types.{LongType, StructType}

/**
 * Holds records back until the time of all partitions has passed theirs by `grace`, and then joins them, in the order of their
 * times: a change of the table that was late by no more than that is there by then. So the row that a record meets depends on
 * times alone.
 *
 * A record that is too late for the table's history meets no older row, and does not wait.
 */
private[keyed] final class HeldLookupProcessor(node: HeldLookup, table: Processor, task: TaskAtWork)
  extends LookupProcessor(node.lookup, table, task) {
  private val toKey = UnsafeProjection.create(HeldRecords.Keys)
  private val bound = TimeOrder.bound(HeldRecords.Keys)
  private val key = new GenericInternalRow(HeldRecords.Keys.length)
  private var store: StateStore = _
  private var number = 0L
  private var closed = StreamTimes.Unknown
  /** The earliest time among the records that have come since the last call of [[forget]]. */
  private var earliest = Long.MaxValue
  /** The records that go on at the end of the epoch, and the next one of them. */
  private var going: Option[StateStoreIterator[UnsafeRowPair]] = None
  private var waiting: UnsafeRowPair = _

  override def begin(): Unit = {
    store = task.store(node.name)
    number = 0
    going = None
    waiting = null
    earliest = Long.MaxValue
  }

  override def receive(none: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit =
    if (!row.getBoolean(node.lookup.deletedAt)) {
      if (table.isBeyond(time, task.now)) lookUp(row, time, task.now)
      else {
        key.update(0, time)
        key.update(1, store.version)
        key.update(2, number)
        number += 1
        earliest = math.min(earliest, time)
        store.put(toKey(key), row.asInstanceOf[UnsafeRow]) // the step before it has made it an UnsafeRow
      }
    }

  override def end(): Unit = going.foreach(_.close())

  override def forgets: Boolean = true
  // The records look up rows that other processors are about to forget.
  override def stage: Int = TaskAtWork.Records
  override def gathers: Boolean = true

  override def forget(closing: Closing, fresh: Boolean): Unit = {
    // The scan does not pass the records that have gone on.
    val from = Option.when(!fresh && closed != StreamTimes.Unknown && closed == closing.before)(math.min(earliest, closed - node.grace))
    closed = closing.after
    earliest = Long.MaxValue
    if (closed != StreamTimes.Unknown) going = Some(store.rangeScan(from.map(behind), Some(bound(closed - node.grace))))
  }

  override def holds: Boolean = going.exists { over =>
    if (waiting == null && over.hasNext) waiting = over.next()
    val more = waiting != null && waiting.key.getLong(0) < closed - node.grace
    if (!more) {
      over.close()
      going = None
      waiting = null
    }
    more
  }

  // One at a time: all of them together may not fit into memory.
  override def letGo(): Unit = {
    val (time, row) = (waiting.key.getLong(0), waiting.value.copy())
    store.remove(waiting.key)
    waiting = null
    lookUp(row, time, StreamTimes.Unknown)
  }

  override def due: Long = {
    val from = Option.when(closed != StreamTimes.Unknown)(behind(closed - node.grace))
    val scan = store.rangeScan(from, None)
    try if (scan.hasNext) scan.next().key.getLong(0) + node.grace + 1 else Long.MaxValue
    finally scan.close()
  }

  // A key of exactly the bound's time may be on either side of it.
  private def behind(time: Long): UnsafeRow = bound(time - 1)
}

private[keyed] object HeldRecords {
  /** The key of a waiting record: its time, its epoch, and its number in the epoch. */
  val Keys: StructType = Seq("time", "epoch", "number").foldLeft(new StructType())(_.add(_, LongType, nullable = false))
}
