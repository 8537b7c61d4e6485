// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.StructType

/**
 * Keeps the windows that the records of groups make. A window closes by the time of all source partitions ([[EpochTimes]]);
 * whether a record finds it open, and whether it is late, goes by that of its own.
 *
 * @param order how many columns say the order of rows: behind those of the group and the event time, stream time first
 * @param groups how many columns a group has: the first of the child's
 * @param late how many columns a late record has: behind those of the order
 * @param child gives rows in the order of groups, and of stream time within each
 */
case class RecordWindowsExec(rule: WindowRule, order: Int, groups: Int, late: Int, aggregates: RowAggregates, output: Seq[Attribute],
    child: SparkPlan)
  extends UnaryExecNode with KeyedOperator {
  override def producedAttributes: AttributeSet = AttributeSet(output)

  def columns: Seq[Attribute] = child.output.take(groups)
  def buffer: StructType = aggregates.buffers.bufferSchema

  override protected def doExecute(): RDD[InternalRow] = {
    val times = TaskClosing.of(this, getStateInfo, Some(rule.lasting))
    val (of, calls, results) = (columns, aggregates, output)
    val recordAt = groups + 1 + order
    val record = child.output.slice(recordAt, recordAt + late)
    val (windows, lateColumns) = (rule, late)
    val kept = WindowRows.of(rule, of, buffer)
    child.execute().mapPartitionsWithStateStore(getStateInfo, kept.keys, kept.values, kept.encoding, session.sessionState,
      Some(session.streams.stateStoreCoordinator), useColumnFamilies = true) { (store, rows) =>
        val ofTask = WindowsOfTask(windows, of, lateColumns, calls, results).begin(store)
        new GroupsOfTask(store, rows, ofTask, of, record, recordAt, times)
      }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): RecordWindowsExec = copy(child = newChild)
}
