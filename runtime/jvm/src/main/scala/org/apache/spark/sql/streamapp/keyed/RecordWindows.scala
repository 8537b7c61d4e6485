// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.execution.{ProjectExec, SortExec, SparkPlan, SparkStrategy}
import org.apache.spark.sql.types.{BooleanType, DataType, LongType, TimestampType}

/**
 * Windows that records make, of groups: over an aggregation of Spark's by event time, the columns of an order, and group. That one is never
 * run: it brings the aggregates through Spark's optimizer.
 *
 * @param order how many columns say the order: stream time is the first
 * @param groups how many columns a group has
 * @param late how many columns a late record has, which come behind those of the group
 * @param output [[RecordWindows.Head]], then the columns of the group, those of a late record, and the aggregates
 */
final case class RecordWindows(rule: WindowRule, order: Int, groups: Int, late: Int, output: Seq[Attribute], child: LogicalPlan) extends UnaryNode {
  // The state has all of them, whichever a later node uses.
  @transient override lazy val references: AttributeSet = child.outputSet
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def withNewChildInternal(newChild: LogicalPlan): RecordWindows = copy(child = newChild)
}

object RecordWindows {
  /**
   * Begin and end of a window, and its latest record; whether the row is a record that is late; whether it says that the window
   * is gone.
   */
  val Head: Seq[(String, DataType)] = Seq("__start" -> TimestampType, "__end" -> TimestampType, "__latest" -> TimestampType,
    "__late" -> BooleanType, "__gone" -> BooleanType)

  /**
   * The frame of what becomes of windows.
   *
   * @param grouped an aggregation by event time, stream time in microseconds and what else says the order, the columns of the group,
   *                and those that a late record is to give
   * @param order how many columns say the order
   * @param groups how many columns the group has
   * @param late how many a late record
   * @param rule [[WindowRule]] as JSON
   */
  def of(grouped: DataFrame, order: Int, groups: Int, late: Int, rule: String): DataFrame = {
    val frame = grouped.asInstanceOf[Dataset[Row]]
    val plan = frame.queryExecution.analyzed
    val head = Head.map { case (name, dataType) => AttributeReference(name, dataType)() }
    val rest = plan.output.drop(1 + order).map(column => AttributeReference(column.name, column.dataType)())
    Dataset.ofRows(frame.sparkSession, RecordWindows(WindowRule.read(rule), order, groups, late, head ++ rest, plan))
  }
}

/**
 * Plans [[RecordWindows]] with a shuffle by group and a sort: a task reads one group after the other, each in the order of stream
 * time, and of further columns where there are some. Within a source partition that is the order of offsets.
 */
object RecordWindowsStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case RecordWindows(rule, orders, count, late, output, Aggregation(rows)) =>
      val keys = 1 + orders
      val when = Alias(PreciseTimestampConversion(rows.key(0), TimestampType, LongType), "__time")()
      val order = rows.order(1 until keys)
      val by = rows.group(keys until keys + count)
      val record = (0 until late).map(i => Alias(rows.key(keys + count + i), s"__late_$i")())
      val read = ProjectExec((by :+ when) ++ order ++ record ++ rows.columns, planLater(rows.of))
      val group = by.map(_.toAttribute)
      val aggregates = rows.aggregates(keys + count + late, keys, group, read.output)
      val inOrder = (group ++ order.map(_.toAttribute)).map(SortOrder(_, Ascending))
      val sorted = SortExec(inOrder, global = false, RowsByGroup.shuffled(group, read))
      Seq(RecordWindowsExec(rule, order.length, count, late, aggregates, output, sorted))
    case _ => Nil
  }
}
