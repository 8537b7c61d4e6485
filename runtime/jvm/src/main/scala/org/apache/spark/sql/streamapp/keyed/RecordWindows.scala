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
  /** Begin and end of a window, as questions are answered with. */
  private[keyed] val span: Seq[Attribute] = Seq("start", "end").map(AttributeReference(_, TimestampType)())

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
      val of = RecordRows(rows, orders, count, late)
      val order = rows.order(1 until 1 + orders)
      val read = ProjectExec(of.head ++ order ++ of.record ++ rows.columns, planLater(rows.of))
      val inOrder = (of.group ++ order.map(_.toAttribute)).map(SortOrder(_, Ascending))
      val sorted = SortExec(inOrder, global = false, RowsByGroup.shuffled(of.group, read))
      Seq(RecordWindowsExec(rule, order.length, count, late, of.aggregates(read.output), output, sorted))
    case _ => Nil
  }
}

/** The rows of an aggregation under [[RecordWindows]], which says what is where in its output. */
private[keyed] final case class RecordRows(rows: RowsByGroup, order: Int, groups: Int, late: Int) {
  private val keys = 1 + order
  private val by = rows.group(keys until keys + groups)

  /** The columns of the group. */
  val group: Seq[Attribute] = by.map(_.toAttribute)
  /** The group, and the event time. */
  val head: Seq[Alias] = by :+ Alias(PreciseTimestampConversion(rows.key(0), TimestampType, LongType), "__time")()
  val record: Seq[Alias] = (0 until late).map(i => Alias(rows.key(keys + groups + i), s"__late_$i")())

  /** @param read all columns of the rows, as they are made of these */
  def aggregates(read: Seq[Attribute]): RowAggregates = rows.aggregates(keys + groups + late, keys, group, read)
}
