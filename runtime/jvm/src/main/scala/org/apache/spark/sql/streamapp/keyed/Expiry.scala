// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.types.{LongType, StructType}

/**
 * Finds the rows of a table that are older than `ttl`, in microseconds of event time.
 *
 * The store also has looks, in the order of their times: one for each row, no later than the row itself. So a row that is
 * updated costs no further write, and finding expired rows takes no scan of the whole store.
 *
 * @param keys the columns of a row's key
 */
private[keyed] final class Expiry(val ttl: Long, keys: StructType) {
  private val family = "looks"
  private val looks = StructType(new StructType().add("time", LongType, nullable = false) ++ keys)
  private val toLook = UnsafeProjection.create(looks)
  private val keyOf = UnsafeProjection.create(keys.zipWithIndex.map { case (field, i) => BoundReference(i + 1, field.dataType, field.nullable) })
  private val bound = TimeOrder.bound(looks)
  private val nothing = UnsafeProjection.create(KeyedOperator.Unused)(InternalRow(0)).copy()
  private val time = new GenericInternalRow(1)
  private val joined = new JoinedRow
  private var store: StateStore = _
  private var closed = StreamTimes.Unknown

  def begin(store: StateStore): Unit = {
    this.store = store
    store.createColFamilyIfAbsent(family, looks, KeyedOperator.Unused, TimeOrder.encoding(looks))
  }

  /** Whether a row of that time has expired, with time at `now`. */
  def isOver(time: Long, now: Long): Boolean = now != StreamTimes.Unknown && time <= now - ttl

  /**
   * Notes that there is a row of that time now.
   *
   * @param before the time of the row that it replaces; None where there was none
   */
  def note(key: UnsafeRow, time: Long, before: Option[Long]): Unit = if (before.forall(time < _)) {
    // A look before the time that was looked at would not be found any more.
    this.time.update(0, if (closed == StreamTimes.Unknown) time else math.max(time, closed - ttl))
    store.put(toLook(joined(this.time, key)), nothing, family)
  }

  /**
   * Removes the looks that are due.
   *
   * @param timeOf the time of the row of a key, if it is there
   * @return keys of expired rows, each good until the next
   */
  def over(closing: Closing, fresh: Boolean, timeOf: UnsafeRow => Option[Long]): Iterator[UnsafeRow] = {
    // Looks that were removed before are not passed again. But an earlier version of the app may have kept rows for longer, and another
    // process may have looked, and noted, meanwhile.
    val goesOn = !fresh && closed != StreamTimes.Unknown && closed == closing.before
    val from = Option.when(goesOn)(behind(closed))
    closed = closing.after
    if (closed == StreamTimes.Unknown || (goesOn && closed == closing.before)) Iterator.empty
    else store.rangeScan(from, Some(bound(closed - ttl + 1)), family).takeWhile(_.key.getLong(0) <= closed - ttl).flatMap { pair =>
      val key = keyOf(pair.key)
      store.remove(pair.key, family)
      timeOf(key).flatMap { time =>
        if (isOver(time, closed)) Some(key)
        else {
          note(key, time, None)
          None
        }
      }
    }
  }

  /** The time at which the first row may expire; Long.MaxValue when there is none. */
  def due: Long = {
    val from = Option.when(closed != StreamTimes.Unknown)(behind(closed))
    val scan = store.rangeScan(from, None, family)
    try if (scan.hasNext) scan.next().key.getLong(0) + ttl else Long.MaxValue
    finally scan.close()
  }

  // A key of exactly the bound's time may be on either side of it, and late rows are noted there.
  private def behind(closed: Long): UnsafeRow = bound(closed - ttl - 1)
}
