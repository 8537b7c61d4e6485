// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreIterator, UnsafeRowPair}
import org.apache.spark.sql.types.{LongType, StructType}

/**
 * Holds records back until the time of all partitions has passed theirs by `grace`, and joins them then, in the order of their times:
 * what of the table was late by no more than that is there. So what a record meets depends on times alone.
 *
 * A record that is too late for the table's history meets nothing older, and does not wait for it.
 */
private[keyed] final class HeldLookupProcessor(node: HeldLookup, table: Processor, task: TaskAtWork)
  extends LookupProcessor(node.lookup, table, task) {
  private val toKey = UnsafeProjection.create(HeldRecords.Keys)
  private val bound = TimeOrder.bound(HeldRecords.Keys)
  private val key = new GenericInternalRow(HeldRecords.Keys.length)
  private var store: StateStore = _
  private var number = 0L
  private var closed = StreamTimes.Unknown
  /** The earliest time among the records that have come since. */
  private var earliest = Long.MaxValue
  /** Those that go on at the end of the epoch, and the one that is next. */
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
        store.put(toKey(key), row.asInstanceOf[UnsafeRow]) // as the step before it has made it
      }
    }

  override def end(): Unit = going.foreach(_.close())

  override def forgets: Boolean = true
  // They look up what others are about to forget.
  override def stage: Int = TaskAtWork.Records
  override def gathers: Boolean = true

  override def forget(closing: Closing, fresh: Boolean): Unit = {
    // What has gone on is not passed again.
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

  // One at a time: they may be more than there is memory for.
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

  // A key of just the bound's time may be on either side of it.
  private def behind(time: Long): UnsafeRow = bound(time - 1)
}

private[keyed] object HeldRecords {
  /** Of a record that waits: its time, and the epoch it came in with its number there. */
  val Keys: StructType = Seq("time", "epoch", "number").foldLeft(new StructType())(_.add(_, LongType, nullable = false))
}
