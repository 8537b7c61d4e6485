// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.StateStore

/**
 * Joins a stream's record with all rows of a table that have its values in some columns. The store of that name has the rows by these
 * columns.
 *
 * @param wanted the columns that a record looks up
 * @param key    the key of a row in the store: the columns that it is found by, and behind them the row's own key
 * @param value  the columns of a row that the store keeps
 * @param row    the row, over a value
 * @param result the result, over record and row
 * @param signAt the column of a row that says whether it is the new or the old row of a change
 * @param deletedAt the column of a record that says that it has no value
 * @param width  the number of columns of a row
 * @param keepsAll whether a record without a row goes on too
 */
private[keyed] final case class ColumnLookup(stream: Int, table: Int, name: String, wanted: RowsOf, key: RowsOf, value: RowsOf,
    row: RowsOf, result: RowsOf, signAt: Int, deletedAt: Int, width: Int, keepsAll: Boolean) extends TaskNode {
  override def inputs: Seq[Int] = Seq(stream, table)
  override def store: Option[String] = Some(name)
  override def open(task: TaskAtWork): Processor = new ColumnLookupProcessor(this, task)
}

/** A row with a null in one of the columns is not kept: no record finds it. A record without a value takes no part. */
private[keyed] final class ColumnLookupProcessor(node: ColumnLookup, task: TaskAtWork) extends Processor {
  private var store: StateStore = _
  private val wantedOf = node.wanted.projection
  private val keyOf = node.key.projection
  private val valueOf = node.value.projection
  private val rowOf = node.row.projection
  private val resultOf = node.result.projection
  private val both = new JoinedRow
  private val missing = new GenericInternalRow(node.width)
  private val columns = 0 until node.wanted.values.length

  override def begin(): Unit = store = task.store(node.name)

  private val fromStream: Port = (_, record, _, time) => if (!record.getBoolean(node.deletedAt)) {
    val wanted = wantedOf(record)
    var found = false
    if (!wanted.anyNull) {
      val rows = store.prefixScan(wanted)
      try rows.foreach { pair =>
        found = true
        forward(null, resultOf(both(record, rowOf(pair.value))), null, time)
      } finally rows.close()
    }
    if (!found && node.keepsAll) forward(null, resultOf(both(record, missing)), null, time)
  }

  private val fromTable: Port = (_, row, _, _) => {
    val key = keyOf(row)
    if (!columns.exists(key.isNullAt)) {
      if (row.getInt(node.signAt) > 0) store.put(key, valueOf(row)) else store.remove(key)
    }
  }

  override def port(number: Int): Port = if (number == 0) fromStream else fromTable

  override def receive(key: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit =
    throw new UnsupportedOperationException("rows come by one of two ports")
}
