// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.execution.streaming.state.StateStoreId
import org.apache.spark.sql.types.{LongType, StructType}

/**
 * What a keyed task does with the rows that it gets: processors in an order in which each comes behind those that it reads.
 *
 * @param nodes      each reads others by their place in here
 * @param stores     that the processors keep their state in; the first is the one that placement goes by
 */
final case class TaskGraph(nodes: Seq[TaskNode], stores: Seq[TaskStore]) {
  def store(name: String): Option[TaskStore] = stores.find(_.name == name)

  /** For each node in its place something that follows from the same of its inputs. */
  private[keyed] def alongInputs[A](of: (Int, Seq[A]) => A): IndexedSeq[A] =
    nodes.indices.foldLeft(Vector.empty[A])((found, place) => found :+ of(place, nodes(place).inputs.map(found)))

  /** For each node those with a store of which a change comes to it, itself among them. */
  private lazy val storesBehind = alongInputs[Set[Int]] { (place, before) =>
    before.flatten.toSet ++ Some(place).filter(_ => nodes(place).store.isDefined)
  }

  /** Whether a change of one row can come to that join by both of its sides. */
  def isDiamond(join: TableJoin): Boolean = storesBehind(join.leftInput).intersect(storesBehind(join.rightInput)).nonEmpty

  /** The longest time for which changes and records are held back on their way, in microseconds; None where none are. */
  def lasting: Option[Long] = held.maxOption.filter(_ > 0)

  private lazy val held = alongInputs[Long]((place, before) => nodes(place).lasting + before.maxOption.getOrElse(0L))

  /** The longest time for which what comes to the node was held back on its way, in microseconds. */
  def heldBefore(node: TaskNode): Long = node.inputs.map(held).maxOption.getOrElse(0L)

  lazy val hasDiamonds: Boolean = nodes.exists { case join: TableJoin => isDiamond(join); case _ => false }

  /** How Spark knows a store. */
  def sparkName(store: TaskStore): String = if (store == stores.head) StateStoreId.DEFAULT_STORE_NAME else store.name
}

/**
 * How long rows last.
 *
 * @param span in microseconds of event time
 * @param keys the columns of their keys in the store
 */
private[keyed] final case class Ttl(span: Long, keys: StructType) {
  def open: Expiry = new Expiry(span, keys)
}

/** A step of a keyed task, as it is known when the query is planned. */
trait TaskNode extends Serializable {
  /** Whose rows it gets, in the order of its ports. */
  def inputs: Seq[Int]
  /** The store that it writes. */
  def store: Option[String] = None
  /** For how long it keeps back what goes on, in microseconds. */
  def lasting: Long = 0
  def open(task: TaskAtWork): Processor
}

/**
 * Rows from outside.
 *
 * @param at     the column of the task's rows that they are in, as a struct
 * @param timeAt the struct's column for event time
 */
private[keyed] final case class Entry(at: Int, width: Int, timeAt: Int) extends TaskNode {
  override def inputs: Seq[Int] = Nil
  override def open(task: TaskAtWork): Processor = new EntryProcessor(this)
}

/** Columns and conditions over one row; of a table, a row for which column `deletedAt` is true is none. */
private[keyed] final case class Steps(input: Int, rows: RowsOf, deletedAt: Int, table: Boolean) extends TaskNode {
  override def inputs: Seq[Int] = Seq(input)
  override def open(task: TaskAtWork): Processor =
    if (table) new TableSteps(this, task.processor(input)) else new StreamSteps(this)
}

/**
 * The latest row of each key, in the store of that name. A row for which column `deletedAt` is true deletes its key's.
 *
 * @param key   of a row
 * @param value of a row: what the store keeps beside the key
 * @param row   of key and value: the row as it goes on
 * @param timeAt which column of that is its event time
 * @param ttl   after how long it loses a row that is not updated
 */
private[keyed] final case class Table(input: Int, name: String, key: RowsOf, value: RowsOf, row: RowsOf, deletedAt: Int, timeAt: Int,
    ttl: Option[Ttl])
  extends TaskNode {
  override def inputs: Seq[Int] = Seq(input)
  override def store: Option[String] = Some(name)
  override def open(task: TaskAtWork): Processor = new TableProcessor(this, task)
}

/**
 * The same with what each row was within its history.
 *
 * @param history for how long, over the columns of the key and the time of a version
 * @param value   the columns of a row without its key; its event time is the first
 */
private[keyed] final case class VersionedTable(table: Table, history: Ttl, value: StructType) extends TaskNode {
  override def inputs: Seq[Int] = table.inputs
  override def store: Option[String] = table.store
  override def open(task: TaskAtWork): Processor = new VersionedTableProcessor(this, task)

  /** Of the rows that are: with the time of the version before. */
  def rowSchema: StructType = value.add("__previous", LongType)
  /** Of those that were: up to when it can be of use, the time of the version before, and the row; null for a deletion. */
  def versionSchema: StructType =
    new StructType().add("until", LongType, nullable = false).add("previous", LongType).add("row", value)
  def valueWidth: Int = value.length
}

/**
 * What the records of each group come to, in the store of that name. A row for which column `deletedAt` is true takes no part.
 *
 * @param rows   what is aggregated of a row
 * @param key    the columns of the group, over those
 * @param timeAt which column of the result is its event time
 * @param ttl    after how long a group without a record is gone
 */
private[keyed] final case class Group(input: Int, name: String, rows: RowsOf, key: Seq[Expression], aggregates: RowAggregates,
    deletedAt: Int, timeAt: Int, ttl: Option[Ttl]) extends TaskNode {
  override def inputs: Seq[Int] = Seq(input)
  override def store: Option[String] = Some(name)
  override def open(task: TaskAtWork): Processor = new GroupProcessor(this, task)
}

/** Records in groups and windows, in the store of that name. A row for which column `deletedAt` is true takes no part. */
private[keyed] sealed trait WindowedNode extends TaskNode {
  def input: Int
  def name: String
  /** What is taken of a row, over its columns and one more. */
  def rows: RowsOf
  /** The columns of the group, over that. */
  def group: Seq[Expression]
  def deletedAt: Int
  def late: LateExit
  override def inputs: Seq[Int] = Seq(input)
  override def store: Option[String] = Some(name)
}

/**
 * Where late records leave.
 *
 * @param at which of the output's columns they are in, as a struct
 * @param record over the row, its window's begin and end, and how far time had come; None where nobody gets it
 */
private[keyed] final case class LateExit(at: Int, record: Option[RowsOf])

/**
 * The pairs of two streams, in the store of that name.
 *
 * @param key the columns that rows meet by
 * @param result over the rows of both sides, as they are kept; null where a side is missing
 * @param timeAt which column of the result is its event time
 */
private[keyed] final case class Pairs(left: PairInput, right: PairInput, name: String, pairing: Pairing, key: StructType, result: RowsOf,
    timeAt: Int) extends TaskNode {
  override def inputs: Seq[Int] = Seq(left.input, right.input)
  override def store: Option[String] = Some(name)
  override def lasting: Long = pairing.lasting
  override def open(task: TaskAtWork): Processor = new PairProcessor(this, task)
}

/**
 * What comes to one side. A row for which column `deletedAt` is true takes no part.
 *
 * @param key over the row
 * @param row over the row and its stream time: what is kept of it
 */
private[keyed] final case class PairInput(input: Int, side: JoinSide, key: RowsOf, row: RowsOf, deletedAt: Int, late: LateExit)

/**
 * Tumbling and hopping windows.
 *
 * @param keys the columns of the group, the first of which is the window
 * @param rows what is aggregated of a row, over its columns and the window
 * @param group its columns without the window, over those
 */
private[keyed] final case class Windowed(input: Int, name: String, windows: Windows, keys: GroupKeys, rows: RowsOf, group: Seq[Expression],
    aggregates: RowAggregates, deletedAt: Int, late: LateExit) extends WindowedNode {
  override def lasting: Long = windows.lasting
  override def open(task: TaskAtWork): Processor = new WindowProcessor(this, task)
}

/**
 * Sessions and sliding windows.
 *
 * @param rows of a row's columns and its stream time: the columns of the group, event time, stream time, and what is aggregated
 * @param columns those of the group
 * @param group the same, over what `rows` gives
 * @param output of [[RecordWindows]]
 * @param result over that: the row that goes on
 */
private[keyed] final case class RecordWindowed(input: Int, name: String, rule: WindowRule, rows: RowsOf, columns: Seq[Attribute],
    group: Seq[Expression], aggregates: RowAggregates, output: Seq[Attribute], result: RowsOf, deletedAt: Int, late: LateExit)
  extends WindowedNode {
  override def lasting: Long = rule.lasting
  override def open(task: TaskAtWork): Processor = new RecordWindowProcessor(this, task)
}

/**
 * The records of which none with the same key has passed within some time. The store of that name has the times.
 *
 * @param within in microseconds
 */
private[keyed] final case class Deduplicate(input: Int, name: String, key: RowsOf, within: Long, deletedAt: Int) extends TaskNode {
  override def inputs: Seq[Int] = Seq(input)
  override def store: Option[String] = Some(name)
  override def open(task: TaskAtWork): Processor = new DeduplicateProcessor(this, task)
}

/**
 * The changes of a table, each held back for some time. The store of that name has what readers know of the rows that have changed.
 *
 * @param value the columns of the store's values: since when a row waits, and the row that readers know, as a struct
 * @param width of a row
 * @param timeAt which of its columns is the event time
 * @param limit for how long
 */
private[keyed] final case class Suppress(input: Int, name: String, value: StructType, width: Int, timeAt: Int, limit: Ttl)
  extends TaskNode {
  override def inputs: Seq[Int] = Seq(input)
  override def store: Option[String] = Some(name)
  override def lasting: Long = limit.span
  override def open(task: TaskAtWork): Processor = new SuppressProcessor(this, task.processor(input), task)
}

/**
 * A stream's record with the row that a table has for it then.
 *
 * @param key     of the record: which row of the table
 * @param result  of record and row
 * @param keepsAll whether a record without a row goes on too
 * @param asOf whether it meets the row that was there at its own time
 */
private[keyed] final case class Lookup(stream: Int, table: Int, key: RowsOf, result: RowsOf, deletedAt: Int, width: Int,
    keepsAll: Boolean, asOf: Boolean) extends TaskNode {
  override def inputs: Seq[Int] = Seq(stream)
  override def open(task: TaskAtWork): Processor = new LookupProcessor(this, task.processor(table), task)
}

/**
 * The same with the row of the record's own time, looked up when no record of an earlier time can be late any more. The store of that
 * name has the records that wait.
 *
 * @param grace how late records may be, in microseconds
 */
private[keyed] final case class HeldLookup(lookup: Lookup, name: String, grace: Long) extends TaskNode {
  override def inputs: Seq[Int] = lookup.inputs
  override def store: Option[String] = Some(name)
  override def lasting: Long = grace + 1
  override def open(task: TaskAtWork): Processor = new HeldLookupProcessor(this, task.processor(lookup.table), task)
}

/**
 * The rows of two tables with equal keys.
 *
 * @param result of both rows; null where a side has none
 * @param timeAt which column of the result is its event time
 * @param left   its width, and which of its columns is the event time
 * @param keepsLeft whether a left row without a right one has a result
 */
private[keyed] final case class TableJoin(leftInput: Int, rightInput: Int, result: RowsOf, timeAt: Int, left: Side, right: Side,
    keepsLeft: Boolean, keepsRight: Boolean) extends TaskNode {
  override def inputs: Seq[Int] = Seq(leftInput, rightInput)
  override def open(task: TaskAtWork): Processor =
    new TableJoinProcessor(this, task.processor(leftInput), task.processor(rightInput), task, task.graph.isDiamond(this))
}

private[keyed] final case class Side(width: Int, timeAt: Int)

/**
 * Rows that leave the task.
 *
 * @param at   which of the output's columns they are in, as a struct
 * @param width of its rows
 * @param gone of the row that was, and the time of the change: the row that says that it is deleted
 * @param change of the row that was, the row that is, and that time: both, in place of what is alone
 */
private[keyed] final case class Exit(input: Int, at: Int, width: Int, gone: Option[RowsOf], change: Option[RowsOf]) extends TaskNode {
  override def inputs: Seq[Int] = Seq(input)
  override def open(task: TaskAtWork): Processor = new ExitProcessor(this, task)
}
