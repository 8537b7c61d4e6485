// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.json4s.DefaultFormats
import org.json4s.jackson.Serialization

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types._

/**
 * A join of two streams, as the manifest defines it; times are in microseconds.
 *
 * @param before how much earlier than a left row's event time the right row's may be
 * @param after how much later
 * @param grace how much later than that a row may come
 * @param keepsLeft whether a left row without a match gives a result
 * @param keepsRight the same for a right row
 */
final case class Pairing(before: Long, after: Long, grace: Long, keepsLeft: Boolean, keepsRight: Boolean) {
  /** How far apart two rows may be, in both directions together. */
  def reach: Long = before + after

  /** How much earlier than the closed time a result may be. */
  def lasting: Long = math.max(before, after) + grace + 1
}

object Pairing {
  /** Reads a pairing from JSON. */
  def read(text: String): Pairing = Serialization.read[Pairing](text)(DefaultFormats, manifest[Pairing])
}

/**
 * One side of a join, as the store keeps it.
 *
 * @param schema the columns of a row
 * @param timeAt the column with the event time
 * @param streamTimeAt the column with the stream time of the row's partition when it was read; -1 for none, as nothing waits
 * @param later how much later than one of its rows a row of the other side may be
 * @param earlier how much earlier
 * @param keeps whether a row without a match gives a result
 */
private[keyed] final case class JoinSide(name: String, schema: StructType, timeAt: Int, streamTimeAt: Int, earlier: Long, later: Long,
    keeps: Boolean)

/** The rows of one side in the state: by key, in the order of their times, and those without a match so far. */
private[keyed] final class JoinState(val side: JoinSide, keyTypes: Seq[DataType], pairing: Pairing) {
  private val keys = StructType(keyTypes.zipWithIndex.map { case (dataType, i) => StructField(s"key$i", dataType) })
  private val place = new StructType().add("time", LongType, nullable = false).add("number", LongType, nullable = false)
  private val byKey = StructType(keys ++ place)
  private val byTime = StructType(place ++ keys)
  private val times = s"${side.name}-times"
  private val alone = s"${side.name}-alone"
  private var store: StateStore = _
  private val toByKey = UnsafeProjection.create(byKey)
  private val toByTime = UnsafeProjection.create(byTime)
  private val keyOfTimes = moved(byTime, place.length)
  private val timesOfKey = moved(byKey, keys.length)
  // Rows of exactly the bound's time may be on either side of it.
  private val bound = TimeOrder.bound(byTime)
  private val joined = new JoinedRow
  private val now = new GenericInternalRow(place.length)
  private val nothing = UnsafeProjection.create(KeyedOperator.Unused)(InternalRow(0)).copy()
  // Numbers rise from epoch to epoch, so that rows of one key and time have different ones.
  private var number = 0L

  /** Begins an epoch, with the store at its version. */
  def begin(store: StateStore): Unit = {
    this.store = store
    number = store.version << 32
    store.createColFamilyIfAbsent(side.name, byKey, side.schema, PrefixKeyScanStateEncoderSpec(byKey, keys.length))
    store.createColFamilyIfAbsent(times, byTime, KeyedOperator.Unused, TimeOrder.encoding(byTime))
    if (side.keeps) store.createColFamilyIfAbsent(alone, byTime, KeyedOperator.Unused, TimeOrder.encoding(byTime))
  }

  /** The row of nulls that stands for a missing row of this side. */
  def missing: InternalRow = new GenericInternalRow(side.schema.length)

  /** @return the row's place among the times, good until the next row is added */
  def add(key: UnsafeRow, row: UnsafeRow): UnsafeRow = {
    now.update(0, row.getLong(side.timeAt))
    now.update(1, number)
    number += 1
    store.put(toByKey(joined(key, now)), row, side.name)
    val where = toByTime(joined(now, key))
    store.put(where, nothing, times)
    where
  }

  /** Returns the rows of a key with their keys in the state, each good until the next. */
  def ofKey(key: UnsafeRow): Iterator[UnsafeRowPair] = store.prefixScan(key, side.name)

  /** Whether a row of this side and a row of the other side with the same key are a pair. */
  def meets(row: InternalRow, others: JoinState, other: InternalRow): Boolean = {
    val (mine, theirs) = (row.getLong(side.timeAt), other.getLong(others.side.timeAt))
    theirs >= mine - side.earlier && theirs <= mine + side.later &&
      (!side.keeps || other.getLong(others.side.streamTimeAt) <= lastMoment(mine)) &&
      (!others.side.keeps || row.getLong(side.streamTimeAt) <= others.lastMoment(theirs))
  }

  /** Notes that a row has no match yet. */
  def waits(where: UnsafeRow): Unit = if (side.keeps) store.put(where, nothing, alone)

  def noMoreAlone(key: UnsafeRow): Unit = if (side.keeps) {
    val where = timesOfKey(key)
    if (store.get(where, alone) != null) store.remove(where, alone)
  }

  /** Removes the waiting rows that no row can meet any more, the earliest first; each is good until the next. */
  def over(before: Long, after: Long): Iterator[InternalRow] =
    if (!side.keeps || after == before) Iterator.empty
    else upTo(waitingSince(before), waitingSince(after), alone).map { where =>
      store.remove(where, alone)
      store.get(keyOfTimes(where), side.name)
    }

  /** The time at which the first waiting row is over, with time at `closed`; Long.MaxValue when none waits. */
  def earliest(closed: Long): Long =
    if (!side.keeps) Long.MaxValue
    else {
      val scan = store.rangeScan(waitingSince(closed).map(since => bound(since - 1)), None, alone)
      try if (scan.hasNext) lastMoment(scan.next().key.getLong(0)) + 1 else Long.MaxValue
      finally scan.close()
    }

  /** Removes the rows that only a late row could meet. */
  def remove(before: Long, after: Long): Unit =
    if (after != before) upTo(neededSince(before), neededSince(after), times).foreach { where =>
      store.remove(keyOfTimes(where), side.name)
      store.remove(where, times)
    }

  /** The latest stream time at which a row of the other side can be read and still meet a row of this time. */
  def lastMoment(time: Long): Long = time + side.later + pairing.grace

  // The earliest event time of the rows that may still be there when time has reached `closed`.
  private def waitingSince(closed: Long): Option[Long] =
    Option.when(closed != StreamTimes.Unknown)(closed - side.later - pairing.grace)
  private def neededSince(closed: Long): Option[Long] =
    Option.when(closed != StreamTimes.Unknown)(closed - pairing.reach - pairing.grace)

  // The rows before `first` were removed before; their deletions are still in the files, and a scan would have to pass them.
  private def upTo(first: Option[Long], end: Option[Long], family: String): Iterator[UnsafeRow] = end match {
    case None => Iterator.empty
    case Some(last) =>
      val scan = store.rangeScan(first.map(time => bound(time - 1)), Some(bound(last)), family)
      scan.map(_.key).takeWhile(_.getLong(0) < last) ++ {
        scan.close()
        Iterator.empty
      }
  }

  // The columns behind the first `n`, and then the first `n`.
  private def moved(schema: StructType, n: Int): UnsafeProjection = {
    val columns = schema.fields.zipWithIndex.map { case (field, i) => BoundReference(i, field.dataType, field.nullable) }.toSeq
    UnsafeProjection.create(columns.drop(n) ++ columns.take(n))
  }
}
