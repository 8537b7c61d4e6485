// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.execution.{ProjectExec, SortExec, SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.execution.streaming.state._

/**
 * An aggregation whose groups take their rows one by one, in order: over one of Spark's by the columns of that order and of
 * the group. That one is never run: it brings the aggregates through Spark's optimizer.
 *
 * @param order how many columns say the order
 * @param output the columns of the group, with a window and a late record as [[GroupKeys]] has them, and the aggregates
 */
final case class OrderedAggregation(order: Int, groups: Int, output: Seq[Attribute], child: LogicalPlan) extends UnaryNode {
  // The state has all of them, whichever a later node uses.
  @transient override lazy val references: AttributeSet = child.outputSet
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def withNewChildInternal(newChild: LogicalPlan): OrderedAggregation = copy(child = newChild)
}

object OrderedAggregation {
  /**
   * @param grouped an aggregation by the columns of the order, and of the group
   * @param order how many columns say the order
   * @param groups how many columns a group has, with that of a late record
   */
  def of(grouped: DataFrame, order: Int, groups: Int): DataFrame = {
    val frame = grouped.asInstanceOf[Dataset[Row]]
    val plan = frame.queryExecution.analyzed
    val output = plan.output.drop(order).map(column => AttributeReference(column.name, column.dataType, metadata = column.metadata)())
    Dataset.ofRows(frame.sparkSession, OrderedAggregation(order, groups, output, plan))
  }
}

/** Plans [[OrderedAggregation]] with a shuffle by group, and a sort of all rows of a task. */
object OrderedAggregationStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case OrderedAggregation(orders, count, output, Aggregation(rows)) =>
      val order = rows.order(0 until orders)
      val by = rows.group(orders until orders + count)
      val read = ProjectExec(by ++ order ++ rows.columns, planLater(rows.of))
      val group = by.map(_.toAttribute)
      val inOrder = order.map(column => SortOrder(column.toAttribute, Ascending))
      val sorted = SortExec(inOrder, global = false, RowsByGroup.shuffled(group, read))
      Seq(OrderedAggregationExec(group, rows.aggregates(orders + count, orders, group, read.output, group), output, sorted))
    case _ => Nil
  }
}

/** @param groups the columns of a group, the first of the child's, which gives rows in their order */
case class OrderedAggregationExec(groups: Seq[Attribute], aggregates: RowAggregates, output: Seq[Attribute], child: SparkPlan)
  extends UnaryExecNode with KeyedOperator {
  override def producedAttributes: AttributeSet = AttributeSet(output)

  def groupKeys: GroupKeys = GroupKeys(groups, Windows.of(groups))

  override protected def doExecute(): RDD[InternalRow] = {
    val (keys, incoming, calls) = (groupKeys, child.output, aggregates)
    val times = keys.windows.map(windows => TaskClosing.of(this, getStateInfo, Some(windows.lasting)))
    child.execute().mapPartitionsWithStateStore(getStateInfo, keys.schema, calls.buffers.bufferSchema, keys.encoding,
      session.sessionState, Some(session.streams.stateStoreCoordinator)) { (store, rows) =>
        val updates = new RowUpdates(calls)
        new KeyedAggregation(store, rows, keys, incoming, new AggregateBuffers(calls.buffers), updates.add, times)
      }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): OrderedAggregationExec = copy(child = newChild)
}
