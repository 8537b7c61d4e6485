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
    rule match {
      case sessions: Sessions =>
        val kept = SessionLayout(of, buffer)
        tasks(kept.keys, kept.values, kept.encoding) { (store, rows) =>
          new SessionsOfTask(store, rows, sessions, of, record, recordAt, calls, new SessionState(store, sessions, kept), results, times)
        }
      case slides: Slides =>
        val kept = PaneLayout(of, buffer)
        tasks(kept.keys, kept.values, kept.encoding) { (store, rows) =>
          new SlidesOfTask(store, rows, slides, of, record, recordAt, calls, new PaneState(store, slides, kept), results, times)
        }
    }
  }

  private def tasks(keys: StructType, values: StructType, encoding: KeyStateEncoderSpec)(
      work: (StateStore, Iterator[InternalRow]) => Iterator[InternalRow]): RDD[InternalRow] =
    child.execute().mapPartitionsWithStateStore(getStateInfo, keys, values, encoding, session.sessionState,
      Some(session.streams.stateStoreCoordinator), useColumnFamilies = true)(work)

  override protected def withNewChildInternal(newChild: SparkPlan): RecordWindowsExec = copy(child = newChild)
}
