// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.{LongType, StructType}

/**
 * How sessions lie in a store: by group and a number of their own, which stays when records extend a session at either end.
 *
 * @param group the columns of the group
 * @param buffer the columns of a buffer
 */
final case class SessionLayout(group: Seq[Attribute], buffer: StructType) extends WindowRows {
  private val groupSchema = DataTypeUtils.fromAttributes(group)
  val keys: StructType = StructType(groupSchema ++ SessionLayout.Number)
  val values: StructType = StructType(SessionLayout.Span ++ buffer)
  /** The entries that say when to check whether a session is over: the time, the session, and its group. */
  val looks: StructType = StructType(new StructType().add("time", LongType, nullable = false) ++ SessionLayout.Number ++ groupSchema)

  def encoding: KeyStateEncoderSpec = PrefixKeyScanStateEncoderSpec(keys, group.length)
  def groupOf: UnsafeProjection = part(keys, 0 until group.length)
  def bufferOf: UnsafeProjection = part(values, 2 until values.length)
  private[keyed] def keyOfLook: UnsafeProjection = part(looks, (2 until looks.length) :+ 1)

  private def part(schema: StructType, columns: Seq[Int]): UnsafeProjection =
    UnsafeProjection.create(columns.map(i => BoundReference(i, schema(i).dataType, schema(i).nullable)))
}

object SessionLayout {
  /** The column family of the sessions that are closed and still kept. */
  val Closed = "closed"
  val Number: StructType = new StructType().add("number", LongType, nullable = false)
  val Span: StructType = new StructType().add("start", LongType, nullable = false).add("end", LongType, nullable = false)
}

/** A session that is in the state: its number, its begin and end, and its buffer, good until the next one. */
private[keyed] final case class StoredSession(number: Long, start: Long, end: Long, buffer: UnsafeRow)

/**
 * The open sessions of a task's store. The store also has looks: one for each session, at a time at which it may be over,
 * no later than its end. So a session that goes on has one record in the changelog per epoch, and finding closed sessions
 * takes no scan of the whole store.
 */
private[keyed] final class SessionState(sessions: Sessions, layout: SessionLayout) extends RecordWindowState {
  private val looks = "looks"
  private val ends = "closed-ends"
  private var store: StateStore = _
  private val toKey = UnsafeProjection.create(layout.keys)
  private val toValue = UnsafeProjection.create(layout.values)
  private val toLook = UnsafeProjection.create(layout.looks)
  private val keyOfLook = layout.keyOfLook
  private val groupOf = layout.groupOf
  private val bufferOf = layout.bufferOf
  private val bound = TimeOrder.bound(layout.looks)
  private val numberAt = layout.group.length
  private val number = new GenericInternalRow(1)
  private val timeAndNumber = new GenericInternalRow(2)
  private val span = new GenericInternalRow(2)
  private val joined = new JoinedRow
  private val nothing = UnsafeProjection.create(KeyedOperator.Unused)(InternalRow(0)).copy()
  // Numbers rise from epoch to epoch, so that no two sessions of a group have the same one.
  private var next = 0L

  override def begin(store: StateStore): Unit = {
    this.store = store
    next = store.version << 32
    store.createColFamilyIfAbsent(SessionLayout.Closed, layout.keys, layout.values, layout.encoding)
    for (family <- Seq(looks, ends))
      store.createColFamilyIfAbsent(family, layout.looks, KeyedOperator.Unused, TimeOrder.encoding(layout.looks))
  }

  def ofGroup(group: UnsafeRow): Iterator[StoredSession] =
    store.prefixScan(group, StateStore.DEFAULT_COL_FAMILY_NAME).map(pair => stored(pair.key.getLong(numberAt), pair.value))

  /** @return the new session's number */
  def add(group: UnsafeRow, start: Long, end: Long, buffer: UnsafeRow): Long = {
    val id = next
    next += 1
    put(group, id, start, end, buffer)
    look(group, id, end, looks)
    id
  }

  def put(group: UnsafeRow, id: Long, start: Long, end: Long, buffer: UnsafeRow): Unit = {
    span.update(0, start)
    span.update(1, end)
    store.put(key(group, id), toValue(joined(span, buffer)), StateStore.DEFAULT_COL_FAMILY_NAME)
  }

  def remove(group: UnsafeRow, id: Long): Unit = store.remove(key(group, id), StateStore.DEFAULT_COL_FAMILY_NAME)

  /** Moves the sessions that are over out of the open ones; each is good until the next one, as is its group. */
  def over(before: Long, after: Long): Iterator[(UnsafeRow, StoredSession)] =
    if (after == before) Iterator.empty
    else {
      val last = sessions.lastEnd(after)
      val scan = store.rangeScan(from(before), Some(bound(last + 1)), looks)
      scan.takeWhile(_.key.getLong(0) <= last).flatMap { pair =>
        val where = keyOfLook(pair.key)
        store.remove(pair.key, looks)
        Option(store.get(where, StateStore.DEFAULT_COL_FAMILY_NAME)).flatMap { value =>
          val found = stored(where.getLong(numberAt), value)
          val group = groupOf(where)
          if (found.end <= last) {
            if (sessions.retention > 0) {
              store.put(where, value, SessionLayout.Closed)
              look(group, found.number, found.end, ends)
            }
            store.remove(where, StateStore.DEFAULT_COL_FAMILY_NAME)
            Some(group -> found)
          } else {
            look(group, found.number, found.end, looks)
            None
          }
        }
      }
    }

  /** Removes the sessions whose retention has passed. */
  def forget(before: Long, after: Long): Unit = if (after != before) {
    val last = sessions.lastEnd(after) - sessions.retention
    val first = Option.when(before != StreamTimes.Unknown)(bound(sessions.lastEnd(before) - sessions.retention))
    store.rangeScan(first, Some(bound(last + 1)), ends).takeWhile(_.key.getLong(0) <= last).foreach { pair =>
      store.remove(keyOfLook(pair.key), SessionLayout.Closed)
      store.remove(pair.key, ends)
    }
  }

  /** The time at which the first open session may be over, with time at `closed`; Long.MaxValue when none is open. */
  override def earliest(closed: Long): Long = {
    val scan = store.rangeScan(from(closed), None, looks)
    try if (scan.hasNext) scan.next().key.getLong(0) + sessions.lasting else Long.MaxValue
    finally scan.close()
  }

  // The entries below were removed before; their deletions are still in the files, and a scan would have to pass them.
  private def from(closed: Long): Option[UnsafeRow] =
    Option.when(closed != StreamTimes.Unknown)(bound(sessions.lastEnd(closed)))

  private def look(group: UnsafeRow, id: Long, end: Long, family: String): Unit = {
    timeAndNumber.update(0, end)
    timeAndNumber.update(1, id)
    store.put(toLook(joined(timeAndNumber, group)), nothing, family)
  }

  private def key(group: UnsafeRow, id: Long): UnsafeRow = {
    number.update(0, id)
    toKey(joined(group, number))
  }

  private def stored(id: Long, value: UnsafeRow) = StoredSession(id, value.getLong(0), value.getLong(1), bufferOf(value))
}
