// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.execution.streaming.state.StateStoreId
import org.apache.spark.sql.types.{LongType, StructType}

/**
 * The work of a keyed task on the rows that it gets: processors, in an order in which each comes behind those that it reads.
 *
 * @param nodes      the steps; each reads others by their places in this list
 * @param stores     the stores that the processors keep their state in; the first one decides the placement
 */
final case class TaskGraph(nodes: Seq[TaskNode], stores: Seq[TaskStore]) {
  def store(name: String): Option[TaskStore] = stores.find(_.name == name)

  /** For each node, in its place, a value that follows from the values of its inputs. */
  private[keyed] def alongInputs[A](of: (Int, Seq[A]) => A): IndexedSeq[A] =
    nodes.indices.foldLeft(Vector.empty[A])((found, place) => found :+ of(place, nodes(place).inputs.map(found)))

  /** For each node the nodes with a store whose changes come to it, itself among them. */
  private lazy val storesBehind = alongInputs[Set[Int]] { (place, before) =>
    before.flatten.toSet ++ Some(place).filter(_ => nodes(place).store.isDefined)
  }

  /** Whether a change of one row can come to that join on both of its sides. */
  def isDiamond(join: TableJoin): Boolean = storesBehind(join.leftInput).intersect(storesBehind(join.rightInput)).nonEmpty

  /** The longest time for which changes and records are held back on their way, in microseconds; None where none are held back. */
  def lasting: Option[Long] = held.maxOption.filter(_ > 0)

  private lazy val held = alongInputs[Long]((place, before) => nodes(place).lasting + before.maxOption.getOrElse(0L))

  /** The longest time for which the input of the node was held back on its way, in microseconds. */
  def heldBefore(node: TaskNode): Long = node.inputs.map(held).maxOption.getOrElse(0L)

  lazy val hasDiamonds: Boolean = nodes.exists { case join: TableJoin => isDiamond(join); case _ => false }

  /** Spark's name for a store. */
  def sparkName(store: TaskStore): String = if (store == stores.head) StateStoreId.DEFAULT_STORE_NAME else store.name
}

/**
 * The time after which rows expire.
 *
 * @param span the time, in microseconds of event time
 * @param keys the columns of the rows' keys in the store
 */
private[keyed] final case class Ttl(span: Long, keys: StructType) {
  def open: Expiry = new Expiry(span, keys)
}

/** A step of a keyed task, as it is known when the query is planned. */
trait TaskNode extends Serializable {
  /** The nodes whose rows it gets, in the order of its ports. */
  def inputs: Seq[Int]
  /** The store that it writes. */
  def store: Option[String] = None
  /** The time for which it holds its output back, in microseconds. */
  def lasting: Long = 0
  def open(task: TaskAtWork): Processor
}

/**
 * Rows from outside the task.
 *
 * @param at     the column of the task's rows that has them, as a struct
 * @param timeAt the struct's column for event time
 */
private[keyed] final case class Entry(at: Int, width: Int, timeAt: Int) extends TaskNode {
  override def inputs: Seq[Int] = Nil
  override def open(task: TaskAtWork): Processor = new EntryProcessor(this)
}

/** Columns and conditions over one row. In a table, a row for which column `deletedAt` is true does not exist. */
private[keyed] final case class Steps(input: Int, rows: RowsOf, deletedAt: Int, table: Boolean) extends TaskNode {
  override def inputs: Seq[Int] = Seq(input)
  override def open(task: TaskAtWork): Processor =
    if (table) new TableSteps(this, task.processor(input)) else new StreamSteps(this)
}

/**
 * The latest row of each key, in the store of that name. A row for which column `deletedAt` is true deletes the row of its key.
 *
 * @param key   the key of a row
 * @param value the columns of a row that the store keeps beside the key
 * @param row   the row that goes on, over key and value
 * @param timeAt the column of that row with its event time
 * @param ttl   the time after which a row without an update expires
 */
private[keyed] final case class Table(input: Int, name: String, key: RowsOf, value: RowsOf, row: RowsOf, deletedAt: Int, timeAt: Int,
    ttl: Option[Ttl])
  extends TaskNode {
  override def inputs: Seq[Int] = Seq(input)
  override def store: Option[String] = Some(name)
  override def open(task: TaskAtWork): Processor = new TableProcessor(this, task)
}

/**
 * A table that also keeps the earlier versions of its rows, for the time of its history.
 *
 * @param history the length of the history, and the columns of a version's key: the row's key and the version's time
 * @param value   the columns of a row without its key; its event time is the first
 */
private[keyed] final case class VersionedTable(table: Table, history: Ttl, value: StructType) extends TaskNode {
  override def inputs: Seq[Int] = table.inputs
  override def store: Option[String] = table.store
  override def open(task: TaskAtWork): Processor = new VersionedTableProcessor(this, task)

  /** The columns of a current row: with the time of the version before. */
  def rowSchema: StructType = value.add("__previous", LongType)
  /** The columns of an earlier version: the time up to which it can be of use, the time of the version before, and the row, null for a deletion. */
  def versionSchema: StructType =
    new StructType().add("until", LongType, nullable = false).add("previous", LongType).add("row", value)
  def valueWidth: Int = value.length
}

/**
 * Aggregates the records of each group, in the store of that name. A row for which column `deletedAt` is true takes no part.
 *
 * @param rows   the columns of a row that are aggregated
 * @param key    the columns of the group, over `rows`
 * @param timeAt the column of the result with its event time
 * @param ttl    the time after which a group without a record expires
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
  /** The columns that are used of a row, over its columns and one more. */
  def rows: RowsOf
  /** The columns of the group, over `rows`. */
  def group: Seq[Expression]
  def deletedAt: Int
  def late: LateExit
  override def inputs: Seq[Int] = Seq(input)
  override def store: Option[String] = Some(name)
}

/**
 * The exit of late records.
 *
 * @param at the column of the output that has them, as a struct
 * @param record the record to write, over the row, the begin and end of its window, and the stream time; None where nobody gets it
 */
private[keyed] final case class LateExit(at: Int, record: Option[RowsOf])

/**
 * The pairs of two streams, in the store of that name.
 *
 * @param key the columns that rows meet by
 * @param result over the rows of both sides, as the store keeps them; null where a side is missing
 * @param timeAt the column of the result with its event time
 */
private[keyed] final case class Pairs(left: PairInput, right: PairInput, name: String, pairing: Pairing, key: StructType, result: RowsOf,
    timeAt: Int) extends TaskNode {
  override def inputs: Seq[Int] = Seq(left.input, right.input)
  override def store: Option[String] = Some(name)
  override def lasting: Long = pairing.lasting
  override def open(task: TaskAtWork): Processor = new PairProcessor(this, task)
}

/**
 * The input of one side. A row for which column `deletedAt` is true takes no part.
 *
 * @param key the key, over the row
 * @param row the row that the store keeps, over the row and its stream time
 */
private[keyed] final case class PairInput(input: Int, side: JoinSide, key: RowsOf, row: RowsOf, deletedAt: Int, late: LateExit)

/**
 * Tumbling and hopping windows.
 *
 * @param keys the columns of the group, the first of which is the window
 * @param rows the columns that are aggregated, over a row's columns and the window
 * @param group the columns of the group without the window, over `rows`
 */
private[keyed] final case class Windowed(input: Int, name: String, windows: Windows, keys: GroupKeys, rows: RowsOf, group: Seq[Expression],
    aggregates: RowAggregates, deletedAt: Int, late: LateExit) extends WindowedNode {
  override def lasting: Long = windows.lasting
  override def open(task: TaskAtWork): Processor = new WindowProcessor(this, task)
}

/**
 * Sessions and sliding windows.
 *
 * @param rows the columns of the group, event time, stream time, and the columns that are aggregated, over a row's columns and its stream time
 * @param columns the columns of the group
 * @param group the same columns, over `rows`
 * @param output the output of [[RecordWindows]]
 * @param result the row that goes on, over `output`
 */
private[keyed] final case class RecordWindowed(input: Int, name: String, rule: WindowRule, rows: RowsOf, columns: Seq[Attribute],
    group: Seq[Expression], aggregates: RowAggregates, output: Seq[Attribute], result: RowsOf, deletedAt: Int, late: LateExit)
  extends WindowedNode {
  override def lasting: Long = rule.lasting
  override def open(task: TaskAtWork): Processor = new RecordWindowProcessor(this, task)
}

/**
 * Passes a record if none with the same key has passed within some time. The store of that name has the times.
 *
 * @param within the time, in microseconds
 */
private[keyed] final case class Deduplicate(input: Int, name: String, key: RowsOf, within: Long, deletedAt: Int) extends TaskNode {
  override def inputs: Seq[Int] = Seq(input)
  override def store: Option[String] = Some(name)
  override def open(task: TaskAtWork): Processor = new DeduplicateProcessor(this, task)
}

/**
 * Holds each change of a table back for some time. The store of that name has the rows that readers know, of the rows that have changed.
 *
 * @param value the columns of the store's values: the time since which a row waits, and the row that readers know, as a struct
 * @param width the number of columns of a row
 * @param timeAt the column of a row with its event time
 * @param limit the time for which a change is held back
 */
private[keyed] final case class Suppress(input: Int, name: String, value: StructType, width: Int, timeAt: Int, limit: Ttl)
  extends TaskNode {
  override def inputs: Seq[Int] = Seq(input)
  override def store: Option[String] = Some(name)
  override def lasting: Long = limit.span
  override def open(task: TaskAtWork): Processor = new SuppressProcessor(this, task.processor(input), task)
}

/**
 * Joins a stream's record with the row that a table has for it at that moment.
 *
 * @param key     the key of the table's row, over the record
 * @param result  the result, over record and row
 * @param keepsAll whether a record without a row goes on too
 * @param asOf whether the record meets the row of its own event time
 */
private[keyed] final case class Lookup(stream: Int, table: Int, key: RowsOf, result: RowsOf, deletedAt: Int, width: Int,
    keepsAll: Boolean, asOf: Boolean) extends TaskNode {
  override def inputs: Seq[Int] = Seq(stream)
  override def open(task: TaskAtWork): Processor = new LookupProcessor(this, task.processor(table), task)
}

/**
 * The same with the row of the record's own time, looked up after `grace`, so that late changes of the table are there. The store of
 * that name has the waiting records.
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
 * Joins the rows of two tables with equal keys.
 *
 * @param result the result, over both rows; null where a side has none
 * @param timeAt the column of the result with its event time
 * @param left   the width of a left row, and its column with the event time
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
 * @param at   the column of the output that has them, as a struct
 * @param width the number of columns of a row
 * @param gone the row that reports a deletion, over the old row and the time of the change
 * @param change the row that reports a change, over the old row, the new row and that time; in place of the new row alone
 */
private[keyed] final case class Exit(input: Int, at: Int, width: Int, gone: Option[RowsOf], change: Option[RowsOf]) extends TaskNode {
  override def inputs: Seq[Int] = Seq(input)
  override def open(task: TaskAtWork): Processor = new ExitProcessor(this, task)
}
