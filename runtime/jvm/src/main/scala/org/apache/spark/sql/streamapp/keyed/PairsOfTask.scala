// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types._

/**
 * The work of one task of [[KeyedJoinExec]]: each row meets the rows of the other side that are there, and is there for
 * those that come. So each pair is given once. Behind the pairs come the rows that have met none, when their time is over.
 *
 * A row that waits gives its result when time has passed the last moment at which another could meet it. So a row that is
 * read later than that in its partition meets it no more, although it is still there for others: what is a pair does not
 * depend on when results were given.
 *
 * @param late where a row may have a late record, which passes with nothing beside it
 */
private[keyed] final class PairsOfTask(store: StateStore, rows: Iterator[InternalRow], keyOf: UnsafeProjection, left: JoinState,
    right: JoinState, late: Option[Expression], output: Seq[Attribute], times: TaskClosing) extends Iterator[InternalRow] {

  private val resultOf = UnsafeProjection.create(output.map(_.dataType).toArray)
  private val (both, whole) = (new JoinedRow, new JoinedRow)
  private val (noLeft, noRight) = (left.missing, right.missing)
  private val noRecord = new GenericInternalRow(late.size)
  private val lateOf = UnsafeProjection.create(late.toSeq)
  private var results: Iterator[InternalRow] = Iterator.empty
  private var isRead = false
  private var committed = false

  override def hasNext: Boolean = {
    while (!results.hasNext && rows.hasNext) {
      val row = rows.next()
      results = if (isLate(row)) Iterator.single(resultOf(whole(both(noLeft, noRight), lateOf(row)))) else meet(row)
    }
    if (!results.hasNext && !isRead) {
      isRead = true
      results = close()
    }
    val more = results.hasNext
    if (!more && !committed) {
      store.commit()
      committed = true
    }
    more
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    results.next()
  }

  private def isLate(row: InternalRow): Boolean = late.nonEmpty && !row.isNullAt(right.side.at + 1)

  private def meet(row: InternalRow): Iterator[InternalRow] = {
    val (mine, others) = if (left.has(row)) (left, right) else (right, left)
    val record = mine.of(row)
    val key = keyOf(row)
    if (key.anyNull) if (mine.side.keeps) Iterator.single(alone(mine, record)) else Iterator.empty // null equals nothing
    else {
      val place = mine.add(key, record)
      var met = false
      others.ofKey(key).filter(pair => mine.meets(record, others, pair.value)).map { pair =>
        met = true
        others.noMoreAlone(pair.key)
        result(if (mine eq left) both(record, pair.value) else both(pair.value, record))
      } ++ {
        if (!met) mine.waits(place)
        Iterator.empty
      }
    }
  }

  private def alone(side: JoinState, row: InternalRow): InternalRow =
    result(if (side eq left) both(row, noRight) else both(noLeft, row))

  private def result(pair: InternalRow): InternalRow = resultOf(whole(pair, noRecord))

  private def close(): Iterator[InternalRow] = {
    val Closing(before, after) = times.ask()
    val sides = Seq(left, right)
    sides.iterator.flatMap(side => side.over(before, after).map(alone(side, _))) ++ {
      sides.foreach(_.remove(before, after))
      times.due.add(sides.map(_.earliest(after)).min)
      Iterator.empty
    }
  }
}

/** The rows of one side in the state: by key, in the order of their times, and which of them have met none. */
private[keyed] final class JoinState(store: StateStore, val side: JoinSide, keyTypes: Seq[DataType], pairing: Pairing) {
  private val keys = StructType(keyTypes.zipWithIndex.map { case (dataType, i) => StructField(s"key$i", dataType) })
  private val place = new StructType().add("time", LongType, nullable = false).add("number", LongType, nullable = false)
  private val byKey = StructType(keys ++ place)
  private val byTime = StructType(place ++ keys)
  private val times = s"${side.name}-times"
  private val alone = s"${side.name}-alone"
  store.createColFamilyIfAbsent(side.name, byKey, side.schema,
    PrefixKeyScanStateEncoderSpec(byKey, keys.length))
  store.createColFamilyIfAbsent(times, byTime, KeyedOperator.Unused, TimeOrder.encoding(byTime))
  if (side.keeps) store.createColFamilyIfAbsent(alone, byTime, KeyedOperator.Unused, TimeOrder.encoding(byTime))

  private val toByKey = UnsafeProjection.create(byKey)
  private val toByTime = UnsafeProjection.create(byTime)
  private val keyOfTimes = moved(byTime, place.length)
  private val timesOfKey = moved(byKey, keys.length)
  // Rows of just its time may be on either side of it.
  private val bound = TimeOrder.bound(byTime)
  private val joined = new JoinedRow
  private val now = new GenericInternalRow(place.length)
  private val nothing = UnsafeProjection.create(KeyedOperator.Unused)(InternalRow(0)).copy()
  // Numbers rise from epoch to epoch, so that rows of one key and time have different ones.
  private var number = store.version << 32

  /** A record of this side that is not there. */
  def missing: InternalRow = new GenericInternalRow(side.schema.length)

  def has(row: InternalRow): Boolean = !row.isNullAt(side.at)
  def of(row: InternalRow): UnsafeRow = row.getStruct(side.at, side.schema.length).asInstanceOf[UnsafeRow]

  /** @return where it is among the times, good until the next is added */
  def add(key: UnsafeRow, row: UnsafeRow): UnsafeRow = {
    now.update(0, row.getLong(side.timeAt))
    now.update(1, number)
    number += 1
    store.put(toByKey(joined(key, now)), row, side.name)
    val where = toByTime(joined(now, key))
    store.put(where, nothing, times)
    where
  }

  /** The rows of a key with their keys in the state, good until the next. */
  def ofKey(key: UnsafeRow): Iterator[UnsafeRowPair] = store.prefixScan(key, side.name)

  /** Whether a row of this side and one of the other that has the same key are a pair. */
  def meets(row: InternalRow, others: JoinState, other: InternalRow): Boolean = {
    val (mine, theirs) = (row.getLong(side.timeAt), other.getLong(others.side.timeAt))
    theirs >= mine - side.earlier && theirs <= mine + side.later &&
      (!side.keeps || other.getLong(others.side.streamTimeAt) <= lastMoment(mine)) &&
      (!others.side.keeps || row.getLong(side.streamTimeAt) <= others.lastMoment(theirs))
  }

  /** A row has met none yet. */
  def waits(where: UnsafeRow): Unit = if (side.keeps) store.put(where, nothing, alone)

  def noMoreAlone(key: UnsafeRow): Unit = if (side.keeps) {
    val where = timesOfKey(key)
    if (store.get(where, alone) != null) store.remove(where, alone)
  }

  /** Takes out those that wait and that no row can meet any more, the earliest first; each is good until the next. */
  def over(before: Long, after: Long): Iterator[InternalRow] =
    if (!side.keeps || after == before) Iterator.empty
    else upTo(waitingSince(before), waitingSince(after), alone).map { where =>
      store.remove(where, alone)
      store.get(keyOfTimes(where), side.name)
    }

  /** When the first of those that wait is over, with time at `closed`; Long.MaxValue when none waits. */
  def earliest(closed: Long): Long =
    if (!side.keeps) Long.MaxValue
    else {
      val scan = store.rangeScan(waitingSince(closed).map(since => bound(since - 1)), None, alone)
      try if (scan.hasNext) lastMoment(scan.next().key.getLong(0)) + 1 else Long.MaxValue
      finally scan.close()
    }

  /** Takes out the rows that are of no use to a row that is not late. */
  def remove(before: Long, after: Long): Unit =
    if (after != before) upTo(neededSince(before), neededSince(after), times).foreach { where =>
      store.remove(keyOfTimes(where), side.name)
      store.remove(where, times)
    }

  /** How far stream time may have come when a row of the other side is read that is to meet one of this time. */
  private def lastMoment(time: Long): Long = time + side.later + pairing.grace

  // The earliest event time of rows that may be there when time has come that far.
  private def waitingSince(closed: Long): Option[Long] =
    Option.when(closed != StreamTimes.Unknown)(closed - side.later - pairing.grace)
  private def neededSince(closed: Long): Option[Long] =
    Option.when(closed != StreamTimes.Unknown)(closed - pairing.reach - pairing.grace)

  // What is before `first` was taken out before; the files still have its deletions, which a scan would have to pass.
  private def upTo(first: Option[Long], end: Option[Long], family: String): Iterator[UnsafeRow] = end match {
    case None => Iterator.empty
    case Some(last) =>
      val scan = store.rangeScan(first.map(time => bound(time - 1)), Some(bound(last)), family)
      scan.map(_.key).takeWhile(_.getLong(0) < last) ++ {
        scan.close()
        Iterator.empty
      }
  }

  // The columns behind the first `n`, and then those.
  private def moved(schema: StructType, n: Int): UnsafeProjection = {
    val columns = schema.fields.zipWithIndex.map { case (field, i) => BoundReference(i, field.dataType, field.nullable) }.toSeq
    UnsafeProjection.create(columns.drop(n) ++ columns.take(n))
  }
}
