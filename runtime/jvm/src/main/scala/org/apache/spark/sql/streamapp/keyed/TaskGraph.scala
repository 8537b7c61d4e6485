// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, BoundReference, Expression, NamedExpression}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.streaming.state.{KeyStateEncoderSpec, NoPrefixKeyStateEncoderSpec, PrefixKeyScanStateEncoderSpec, StateStoreId}
import org.apache.spark.sql.types.StructType

/**
 * What a keyed task does with the rows that it gets: processors in an order in which each comes behind those that it reads.
 *
 * @param nodes      each reads others by their place in here
 * @param stores     that the processors keep their state in; the first is the one that placement goes by
 */
final case class TaskGraph(nodes: Seq[TaskNode], stores: Seq[TaskStore]) {
  def store(name: String): Option[TaskStore] = stores.find(_.name == name)

  /** How Spark knows a store. */
  def sparkName(store: TaskStore): String = if (store == stores.head) StateStoreId.DEFAULT_STORE_NAME else store.name
}

/**
 * A store of a keyed task.
 *
 * @param name    the manifest's
 * @param answers what a question about a row is answered with, over the columns of key and value
 * @param answered its columns: the key's as `__key_0`, `__key_1`, …, then the values
 * @param prefix how many of the key's columns rows are looked for by, where that is not the whole key
 */
final case class TaskStore(name: String, keys: Seq[Attribute], values: Seq[Attribute], private val answers: RowsOf,
    private val answered: Seq[String], prefix: Option[Int] = None) {
  def keySchema: StructType = DataTypeUtils.fromAttributes(keys)
  def valueSchema: StructType = DataTypeUtils.fromAttributes(values)

  def encoding: KeyStateEncoderSpec =
    prefix.fold[KeyStateEncoderSpec](NoPrefixKeyStateEncoderSpec(keySchema))(PrefixKeyScanStateEncoderSpec(keySchema, _))

  /** The same over these columns, which are those of key and value. */
  def answersOver(columns: Seq[Attribute]): Seq[NamedExpression] = answers.values.zip(answered).map { case (value, name) =>
    Alias(over(value, columns), name)()
  }

  /** Which rows are answers; None: all. */
  def answering(columns: Seq[Attribute]): Option[Expression] = answers.condition.map(over(_, columns))

  private def over(expression: Expression, columns: Seq[Attribute]): Expression =
    expression.transform { case BoundReference(place, _, _) => columns(place) }
}

/** A step of a keyed task, as it is known when the query is planned. */
trait TaskNode extends Serializable {
  /** Whose rows it gets, in the order of its ports. */
  def inputs: Seq[Int]
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
 * The latest row of each key, in a store. A row for which column `deletedAt` is true deletes its key's.
 *
 * @param key   of a row
 * @param value of a row: what the store keeps beside the key
 * @param row   of key and value: the row as it goes on
 */
private[keyed] final case class Table(input: Int, store: String, key: RowsOf, value: RowsOf, row: RowsOf, deletedAt: Int)
  extends TaskNode {
  override def inputs: Seq[Int] = Seq(input)
  override def open(task: TaskAtWork): Processor = new TableProcessor(this, task)
}

/**
 * A stream's record with the row that a table has for it then.
 *
 * @param key     of the record: which row of the table
 * @param result  of record and row
 * @param keepsAll whether a record without a row goes on too
 */
private[keyed] final case class Lookup(stream: Int, table: Int, key: RowsOf, result: RowsOf, deletedAt: Int, width: Int,
    keepsAll: Boolean) extends TaskNode {
  override def inputs: Seq[Int] = Seq(stream)
  override def open(task: TaskAtWork): Processor = new LookupProcessor(this, task.processor(table))
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
    new TableJoinProcessor(this, task.processor(leftInput), task.processor(rightInput))
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
