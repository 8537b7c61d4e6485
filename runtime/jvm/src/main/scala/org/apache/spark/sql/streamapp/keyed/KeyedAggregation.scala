// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.util.{Collections, LinkedHashMap => JLinkedHashMap, Map => JMap}

import scala.collection.mutable.ArrayDeque

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.{StateStore, UnsafeRowPair}

/** The part of a [[KeyedAggregateExec]] that is the same in all epochs. */
private[keyed] final case class AggregationDefinition(store: StoreForm, work: Packed[AggregationWork])

/** @param incoming the columns of its input */
private[keyed] final case class AggregationWork(keys: GroupKeys, incoming: Seq[Attribute], aggregates: BoundAggregates)

private[keyed] object AggregationsAtWork extends KeptWork[AggregationAtWork]

/** The expressions of an aggregation, ready to run. They keep nothing of an epoch. */
private[keyed] final class AggregationAtWork(work: AggregationWork) extends Work {
  private val AggregationWork(keys, incoming, aggregates) = work
  val keyOf: UnsafeProjection = keys.ofRow(incoming)
  val groupOf: UnsafeProjection = keys.toGroup
  /** The place of a late record among the columns of the input; -1 where there is none. */
  val lateAt: Int = keys.late.fold(-1)(record => incoming.indexWhere(_.exprId == record.exprId))
  val groupOfLate: UnsafeProjection = UnsafeProjection.create(keys.groups, incoming)
  val buffers = new AggregateBuffers(aggregates)
  val closing: Option[WindowClosing] = keys.windows.map(new WindowClosing(keys, _))

  override def end(): Unit = closing.foreach(_.end())
}

/**
 * One epoch of one task of [[KeyedAggregateExec]]. Late records pass through. Results come in the order in which their groups came, then
 * the results of the windows that close, the earliest first.
 *
 * @param done called when the store has committed
 */
private[keyed] final class KeyedAggregation(store: StateStore, rows: Iterator[InternalRow], work: AggregationAtWork,
    times: Option[TaskClosing], done: () => Unit) extends Iterator[InternalRow] {
  import work.{buffers, groupOf, groupOfLate, keyOf, lateAt}
  private val late = ArrayDeque.empty[InternalRow]
  private val held = new JLinkedHashMap[UnsafeRow, InternalRow]()
  private var heldBytes = 0L
  private var results: java.util.Iterator[JMap.Entry[UnsafeRow, InternalRow]] = Collections.emptyIterator()
  private var closed: Iterator[(UnsafeRow, UnsafeRow)] = _
  private val closing = work.closing.map(_.begin(store))
  private val isFinal = closing.exists(_.windows.isFinal)
  private var committed = false

  override def hasNext: Boolean = {
    while (!results.hasNext && late.isEmpty && closed == null) {
      held.clear()
      heldBytes = 0
      while (rows.hasNext && !Held.isFull(held.size, heldBytes)) take(rows.next())
      results = held.entrySet.iterator
      if (isFinal) while (results.hasNext) save(results.next())
      if (!results.hasNext && late.isEmpty && !rows.hasNext) closed = close()
    }
    if (results.hasNext || late.nonEmpty || (closed != null && closed.hasNext)) true
    else {
      if (!committed) {
        store.commit()
        committed = true
        done()
      }
      false
    }
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    if (late.nonEmpty) late.removeHead()
    else if (results.hasNext) {
      val entry = results.next()
      save(entry)
      buffers.result(groupOf(entry.getKey), entry.getValue)
    } else {
      val (key, value) = closed.next()
      buffers.result(groupOf(key), buffers.fromState(value))
    }
  }

  private def close(): Iterator[(UnsafeRow, UnsafeRow)] = closing.zip(times).fold(Iterator.empty[(UnsafeRow, UnsafeRow)]) {
    case (windows, times) =>
      val reached = times.ask()
      windows.over(reached, times.fresh) ++ {
        times.due.add(windows.earliest(reached.after))
        Iterator.empty
      }
  }

  private def save(entry: JMap.Entry[UnsafeRow, InternalRow]): Unit =
    store.put(entry.getKey, buffers.toState(entry.getValue))

  private def take(row: InternalRow): Unit =
    if (lateAt < 0 || row.isNullAt(lateAt)) toGroup(row)
    else {
      val buffer = buffers.fresh()
      buffers.merge(buffer, row)
      late += buffers.result(groupOfLate(row), buffer).copy()
      heldBytes += row.asInstanceOf[UnsafeRow].getSizeInBytes
    }

  private def toGroup(row: InternalRow): Unit = {
    val key = keyOf(row)
    var buffer = held.get(key)
    if (buffer == null) {
      val stored = store.get(key)
      if (stored != null) heldBytes += stored.getSizeInBytes
      buffer = if (stored == null) buffers.fresh() else buffers.fromState(stored)
      held.put(key.copy(), buffer)
    }
    buffers.merge(buffer, row)
    heldBytes += row.asInstanceOf[UnsafeRow].getSizeInBytes
  }
}

/** How much of its groups a task holds before it gives results: an epoch that changes more gives some of them several times. */
private[keyed] object Held {
  private val MostGroups = 100000
  private val MostBytes = 32L << 20

  def isFull(groups: Int, bytes: Long): Boolean = groups >= MostGroups || bytes >= MostBytes
}

/** The windows of one task's store that close in the epoch. */
private[keyed] final class WindowClosing(keys: GroupKeys, val windows: Windows) {
  private val bound = TimeOrder.bound(keys.schema)
  private var store: StateStore = _

  /** Begins an epoch, with the store at its version. */
  def begin(store: StateStore): this.type = {
    this.store = store
    this
  }

  /** Ends the epoch: the store must not be used any more. */
  def end(): Unit = store = null

  /**
   * Removes the windows whose retention has passed from the state. To be called when all records of the epoch were read.
   *
   * @param fresh whether an earlier version of the app may have kept windows for longer
   * @return keys and buffers of the windows that give a result now, the earliest first, each good until the next one
   */
  def over(closing: Closing, fresh: Boolean): Iterator[(UnsafeRow, UnsafeRow)] = {
    val Closing(before, after) = closing
    val found = if (windows.isFinal) between(before, after, kept = 0).map(pair => (pair.key, pair.value)) else Iterator.empty
    found ++ {
      val since = if (fresh) StreamTimes.Unknown else before
      between(since, after, windows.retention).foreach(pair => store.remove(pair.key))
      Iterator.empty
    }
  }

  /** After those were removed: the time at which the first open window is over, with time at `closed`; Long.MaxValue when none is open. */
  def earliest(closed: Long): Long = {
    val scan = store.rangeScan(behind(closed, kept = 0), None, StateStore.DEFAULT_COL_FAMILY_NAME)
    try if (scan.hasNext) scan.next().key.getLong(0) + windows.lasting else Long.MaxValue
    finally scan.close()
  }

  /** The windows that came to be closed for as long as `kept` while time went from `before` to `after`. */
  private def between(before: Long, after: Long, kept: Long): Iterator[UnsafeRowPair] =
    if (after == before) Iterator.empty
    else {
      val last = windows.lastStart(after) - kept
      store.rangeScan(behind(before, kept), Some(bound(last + 1)), StateStore.DEFAULT_COL_FAMILY_NAME).takeWhile(_.key.getLong(0) <= last)
    }

  // The windows before the bound were removed before: their deletions are still in the files, and a scan would have to pass them.
  // Windows begin at whole milliseconds, and those of exactly the bound's time may be on either side of it.
  private def behind(closed: Long, kept: Long): Option[UnsafeRow] = Option.when(closed != StreamTimes.Unknown) {
    val last = windows.lastStart(closed) - kept
    bound(if (Math.floorMod(last, 1000L) == 0) last + 1 else last)
  }
}
