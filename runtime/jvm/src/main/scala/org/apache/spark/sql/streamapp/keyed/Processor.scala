// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, GenericInternalRow, JoinedRow, Predicate, UnsafeRow}

/** Where a processor gets rows from one of its inputs. */
private[keyed] trait Port {
  /**
   * A record of a stream, or a change of a table. Rows are good until this returns.
   *
   * @param key  a table's; null of a stream
   * @param row  the record, or the row that the table has now; null where it has none any more
   * @param old  the row that the table had; null where it had none
   * @param time event time of record or change, in microseconds
   */
  def receive(key: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit
}

/** A [[TaskNode]] at work in one task: for one thread. */
private[keyed] abstract class Processor extends Port {
  private var readers: Array[Port] = Array.empty

  /** An epoch begins. */
  def begin(): Unit = ()

  /** It is over: its stores are to be used no more. */
  def end(): Unit = ()

  /** Where the rows of one of its inputs go. */
  def port(number: Int): Port = this

  /** Of a table: the row that it has for a key after all records until now, at the time of the one that asks; null for none; good until the next call. */
  def get(key: UnsafeRow): InternalRow = throw new UnsupportedOperationException(s"$getClass is no table")

  /**
   * Of a table with a history: the row that it had for a key at a time, as far as it knows by now; null for none. It stays good.
   *
   * @param now what is beyond the history at that time is not known; Unknown: all that there is
   */
  def asOf(key: UnsafeRow, time: Long, now: Long): InternalRow = throw new UnsupportedOperationException(s"$getClass has no history")

  /** Whether that time is beyond its history, with time at `now`. */
  def isBeyond(time: Long, now: Long): Boolean = false

  /** The same as far as its readers have been sent it: a group sends at the end of an epoch what has become of it. */
  def told(key: UnsafeRow): InternalRow = get(key)

  /** The same before the change that is on its way through the task ([[TaskAtWork.change]]). */
  def before(key: UnsafeRow): InternalRow = told(key)

  /** Whether it holds what has changed until all records of the epoch were read. */
  def gathers: Boolean = false

  /** Whether something has changed that it has not sent. */
  def holds: Boolean = false

  /** Whether that takes so much memory that it is to send it now. */
  def isFull: Boolean = false

  /** Sends one change of those that it holds. */
  def letGo(): Unit = ()

  /** Whether it keeps things that time makes worthless. */
  def forgets: Boolean = false

  /** In which of the stages of [[TaskAtWork]] it does, at the earliest. */
  def stage: Int = TaskAtWork.Rows

  /**
   * All records of the epoch were read, and all that was held is sent.
   *
   * @param closing how far the time of all source partitions has come
   * @param fresh whether it is the first epoch of a driver: an earlier version of the app may have kept things for longer
   */
  def forget(closing: Closing, fresh: Boolean): Unit = ()

  /** The time at which something is to be forgotten next, told though no record comes; Long.MaxValue for nothing. */
  def due: Long = Long.MaxValue

  final def readBy(port: Port): Unit = readers = readers :+ port

  protected final def forward(key: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit = {
    var reader = 0
    while (reader < readers.length) {
      readers(reader).receive(key, row, old, time)
      reader += 1
    }
  }
}

/** Rows from outside come here as structs of the task's rows. */
private[keyed] final class EntryProcessor(node: Entry) extends Processor {
  /** Takes the row, if it is for this input. */
  def take(row: InternalRow): Boolean = !row.isNullAt(node.at) && {
    val record = row.getStruct(node.at, node.width)
    receive(null, record, null, record.getLong(node.timeAt))
    true
  }

  override def receive(key: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit = forward(key, row, old, time)
}

private[keyed] final class StreamSteps(node: Steps) extends Processor {
  private val passes = new Condition(node.rows.condition)
  private val resultOf = node.rows.projection

  override def receive(key: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit =
    if (passes(row)) forward(key, resultOf(row), null, time)
}

/** The same columns of what is and of what was: what goes on is a change again, or nothing. */
private[keyed] final class TableSteps(node: Steps, table: Processor) extends Processor {
  private val Seq(ofNew, ofOld, ofFound) = Seq.fill(3)(node.rows.projection)

  override def receive(key: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit = {
    val (now, before) = (of(row, ofNew), of(old, ofOld))
    if (now != null || before != null) forward(key, now, before, time)
  }

  override def get(key: UnsafeRow): InternalRow = of(table.get(key), ofFound)
  override def asOf(key: UnsafeRow, time: Long, now: Long): InternalRow = of(table.asOf(key, time, now), ofFound)
  override def isBeyond(time: Long, now: Long): Boolean = table.isBeyond(time, now)
  override def told(key: UnsafeRow): InternalRow = of(table.told(key), ofFound)
  override def before(key: UnsafeRow): InternalRow = of(table.before(key), ofFound)

  private def of(row: InternalRow, columns: InternalRow => InternalRow): InternalRow =
    if (row == null) null
    else {
      val result = columns(row)
      if (result.getBoolean(node.deletedAt)) null else result
    }
}

/** Rows that leave, each copied: they wait until they are asked for. */
private[keyed] final class ExitProcessor(node: Exit, task: TaskAtWork) extends Processor {
  private val goneOf = node.gone.map(_.projection)
  private val changeOf = node.change.map(_.projection)
  private val none = new GenericInternalRow(node.width)
  private val at = new GenericInternalRow(1)
  private val (rows, timed) = (new JoinedRow, new JoinedRow().withRight(at))

  override def receive(key: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit = {
    at.update(0, time)
    changeOf match {
      case Some(change) =>
        task.leave(node.at, change(timed.withLeft(rows(if (old == null) none else old, if (row == null) none else row))))
      case None if row != null => task.leave(node.at, row)
      case None => goneOf.foreach(gone => task.leave(node.at, gone(timed.withLeft(old))))
    }
  }
}

private[keyed] final class Condition(expression: Option[Expression]) {
  private val predicate = expression.map(Predicate.create(_))

  def apply(row: InternalRow): Boolean = predicate.forall(_.eval(row))
}
