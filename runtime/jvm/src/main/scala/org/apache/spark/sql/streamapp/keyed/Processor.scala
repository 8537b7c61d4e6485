// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, GenericInternalRow, JoinedRow, Predicate, UnsafeRow}

/** The place where a processor gets the rows of one of its inputs. */
private[keyed] trait Port {
  /**
   * Takes a record of a stream, or a change of a table. Rows are good until this returns.
   *
   * @param key  the table's key; null for a stream
   * @param row  the record, or the row that the table has now; null where it has none any more
   * @param old  the row that the table had; null where it had none
   * @param time the event time of the record or change, in microseconds
   */
  def receive(key: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit
}

/** A [[TaskNode]] at work in one task: for one thread. */
private[keyed] abstract class Processor extends Port {
  private var readers: Array[Port] = Array.empty

  /** Begins an epoch. */
  def begin(): Unit = ()

  /** Ends the epoch: the stores must not be used any more. */
  def end(): Unit = ()

  /** The port for the rows of one of its inputs. */
  def port(number: Int): Port = this

  /** The row of a table for a key, after all records so far and at the time of the record that asks; null for none; good until the next call. */
  def get(key: UnsafeRow): InternalRow = throw new UnsupportedOperationException(s"$getClass is no table")

  /**
   * The row for a key at a time, in a table with a history, as far as it is known by now; null for none. It stays good.
   *
   * @param now the time from which the history reaches back: older versions are not known; Unknown for all that there are
   */
  def asOf(key: UnsafeRow, time: Long, now: Long): InternalRow = throw new UnsupportedOperationException(s"$getClass has no history")

  /** Whether that time is beyond the history, with time at `now`. */
  def isBeyond(time: Long, now: Long): Boolean = false

  /** The row of [[get]] as its readers know it: a group sends its change at the end of an epoch. */
  def forwarded(key: UnsafeRow): InternalRow = get(key)

  /** The row of [[forwarded]] before the change that is on its way through the task ([[TaskAtWork.change]]). */
  def before(key: UnsafeRow): InternalRow = forwarded(key)

  /** Whether it holds its changes until all records of the epoch were read. */
  def gathers: Boolean = false

  /** Whether it has changes that it has not sent. */
  def holds: Boolean = false

  /** Whether those take so much memory that it must send them now. */
  def isFull: Boolean = false

  /** Sends one of the changes that it holds. */
  def letGo(): Unit = ()

  /** Whether it keeps state that expires with time. */
  def forgets: Boolean = false

  /** The earliest stage of [[TaskAtWork]] in which it forgets expired state. */
  def stage: Int = TaskAtWork.Rows

  /**
   * Forgets expired state. All records of the epoch were read, and all held changes were sent.
   *
   * @param closing the time that all source partitions have reached
   * @param fresh whether it is the first epoch of a driver: an earlier version of the app may have kept state for longer
   */
  def forget(closing: Closing, fresh: Boolean): Unit = ()

  /** The next time at which state expires, even if no record comes; Long.MaxValue for none. */
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

/** Takes rows from outside, which come as structs of the task's rows. */
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

/** The same columns of the new and of the old row of a change: the result is a change again, or nothing. */
private[keyed] final class TableSteps(node: Steps, table: Processor) extends Processor {
  private val Seq(ofNew, ofOld, ofFound) = Seq.fill(3)(node.rows.projection)

  override def receive(key: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit = {
    val (now, before) = (of(row, ofNew), of(old, ofOld))
    if (now != null || before != null) forward(key, now, before, time)
  }

  override def get(key: UnsafeRow): InternalRow = of(table.get(key), ofFound)
  override def asOf(key: UnsafeRow, time: Long, now: Long): InternalRow = of(table.asOf(key, time, now), ofFound)
  override def isBeyond(time: Long, now: Long): Boolean = table.isBeyond(time, now)
  override def forwarded(key: UnsafeRow): InternalRow = of(table.forwarded(key), ofFound)
  override def before(key: UnsafeRow): InternalRow = of(table.before(key), ofFound)

  private def of(row: InternalRow, columns: InternalRow => InternalRow): InternalRow =
    if (row == null) null
    else {
      val result = columns(row)
      if (result.getBoolean(node.deletedAt)) null else result
    }
}

/** Rows that leave the task. Each is copied, because it waits until it is asked for. */
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
