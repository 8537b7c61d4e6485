// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.util.{LinkedHashMap => JLinkedHashMap}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/** A group has more rows than may be kept of one. */
final class GroupTooLargeException(message: String) extends RuntimeException(message)

/**
 * How the rows of groups are kept: by group and the row's own key. Each group also has an entry without a row key, with the
 * time of the group's last change; it stays when the last row has gone.
 *
 * @param store the store's name
 * @param groups the number of the key's columns that are the group; they are the first
 * @param keys, values the columns of the store; the first value is the event time
 * @param row the row as it came, over key and value
 * @param rows the columns of a row that are aggregated
 * @param timeAt the column of the result with its event time
 */
private[keyed] final case class KeptRows(store: String, groups: Int, keys: StructType, values: StructType, row: RowsOf, rows: RowsOf,
    aggregates: RowAggregates, timeAt: Int) {
  def encoding: KeyStateEncoderSpec = PrefixKeyScanStateEncoderSpec(keys, groups)
}

/** Computes the results of groups from their kept rows. For one thread. */
private[keyed] final class KeptResults(kept: KeptRows) {
  private val rowOf = kept.row.projection
  private val columnsOf = kept.rows.projection
  private val updates = new RowUpdates(kept.aggregates)
  private val buffers = new AggregateBuffers(kept.aggregates.buffers)
  private val keyAndValue = new JoinedRow
  private val own = kept.groups until kept.keys.length

  /**
   * The row of a group, whose rows count in the order of their times; null where the group has no entries. It stays good.
   *
   * @throws GroupTooLargeException when there are too many rows
   */
  def of(group: UnsafeRow, entries: Iterator[UnsafeRowPair]): UnsafeRow = {
    var time = StreamTimes.Unknown
    var count = 0
    val rows = entries.flatMap { entry =>
      if (own.forall(entry.key.isNullAt)) {
        time = entry.value.getLong(0)
        None
      } else {
        count += 1
        if (count > KeptResults.Most) throw tooLarge(group)
        Some(rowOf(keyAndValue(entry.key, entry.value)).copy() -> entry.value.getLong(0))
      }
    }.toArray.sortBy(_._2)
    if (time == StreamTimes.Unknown && rows.isEmpty) null
    else {
      val buffer = buffers.fresh()
      rows.foreach { case (row, _) => updates.add(buffer, columnsOf(row)) }
      val result = buffers.result(group, buffer).copy()
      result.setLong(kept.timeAt, time)
      result
    }
  }

  private def tooLarge(group: UnsafeRow): GroupTooLargeException = {
    val named = group.toSeq(StructType(kept.keys.take(kept.groups))).mkString("(", ", ", ")")
    new GroupTooLargeException(
      s"store '${kept.store}': group $named has more than ${KeptResults.Most} rows, which are all read when one of them changes")
  }
}

private[keyed] object KeptResults {
  /** The most rows of a group. */
  val Most = 100000
}

/**
 * Aggregates the rows of a table by groups, where a row's old value cannot be taken out of a result: the rows are kept, and all rows
 * of a changed group are read.
 *
 * @param input rows of changes: column `signAt` is 1 for the new row, -1 for the old one
 * @param group, key, value over such a row
 */
private[keyed] final case class KeptGroup(input: Int, name: String, group: RowsOf, key: RowsOf, value: RowsOf, kept: KeptRows, signAt: Int)
  extends TaskNode {
  override def inputs: Seq[Int] = Seq(input)
  override def store: Option[String] = Some(name)
  override def open(task: TaskAtWork): Processor = new KeptGroupProcessor(this, task)
}

private[keyed] final class KeptGroupProcessor(node: KeptGroup, task: TaskAtWork) extends Processor {
  private var store: StateStore = _
  private val groupOf = node.group.projection
  private val keyOf = node.key.projection
  private val valueOf = node.value.projection
  private val results = new KeptResults(node.kept)
  private val toKey = UnsafeProjection.create(node.kept.keys.map(_.dataType).toArray)
  private val toValue = UnsafeProjection.create(node.kept.values.map(_.dataType).toArray)
  private val noOwnKey = new GenericInternalRow(node.kept.keys.length - node.kept.groups)
  private val onlyTime = new GenericInternalRow(node.kept.values.length)
  private val groupAndNone = new JoinedRow
  private val held = new JLinkedHashMap[UnsafeRow, ChangedGroup]()
  private var forwarding: Option[ChangedGroup] = None
  private val rows = new RowCache

  override def begin(): Unit = {
    store = task.store(node.name)
    rows.begin(store)
  }

  override def end(): Unit = rows.end()

  override def receive(none: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit = {
    val group = groupOf(row)
    if (!NoKey(group)) {
      val changed = open(group)
      if (row.getInt(node.signAt) < 0) store.remove(keyOf(row)) else store.put(keyOf(row), valueOf(row))
      changed.time = math.max(changed.time, time)
      rows.forget(group)
    }
  }

  private def open(group: UnsafeRow): ChangedGroup = {
    val found = held.get(group)
    if (found != null) found
    else {
      val old = get(group)
      val opened = new ChangedGroup(group.copy(), old, if (old == null) StreamTimes.Unknown else old.getLong(node.kept.timeAt))
      held.put(opened.key, opened)
      opened
    }
  }

  override def gathers: Boolean = true
  override def holds: Boolean = !held.isEmpty
  override def isFull: Boolean = held.size >= KeptResults.Most

  override def letGo(): Unit = {
    val first = held.entrySet.iterator
    val changed = first.next().getValue
    first.remove()
    onlyTime.update(0, changed.time)
    store.put(toKey(groupAndNone(changed.key, noOwnKey)), toValue(onlyTime))
    rows.forget(changed.key)
    forwarding = Some(changed)
    forward(changed.key, get(changed.key), changed.old, changed.time)
    forwarding = None
  }

  override def get(key: UnsafeRow): InternalRow = rows.get(key, {
    val entries = store.prefixScan(key)
    try results.of(key, entries) finally entries.close()
  })

  override def forwarded(key: UnsafeRow): InternalRow = {
    val found = held.get(key)
    if (found == null) get(key) else found.old
  }

  override def before(key: UnsafeRow): InternalRow = forwarding.filter(_.key == key).fold(forwarded(key))(_.old)
}

/**
 * A group whose rows have changed in the epoch.
 *
 * @param old its row before the change
 * @param time the time of its last change
 */
private final class ChangedGroup(val key: UnsafeRow, val old: InternalRow, var time: Long)
