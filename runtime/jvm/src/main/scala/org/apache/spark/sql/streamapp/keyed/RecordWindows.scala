// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.types.{BooleanType, DataType, LongType, TimestampType}

/**
 * Windows that records make, of groups: over an aggregation of Spark's by event time, stream time, and group. It is never planned: a
 * keyed task is made of it ([[RecordWindowed]]). The aggregation brings the aggregates through Spark's optimizer.
 *
 * @param groups how many columns a group has
 * @param output [[RecordWindows.Head]], then the columns of the group, and the aggregates
 */
final case class RecordWindows(rule: WindowRule, groups: Int, output: Seq[Attribute], child: LogicalPlan) extends UnaryNode {
  // The state has all of them, whichever a later node uses.
  @transient override lazy val references: AttributeSet = child.outputSet
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def withNewChildInternal(newChild: LogicalPlan): RecordWindows = copy(child = newChild)
}

object RecordWindows {
  /** Begin and end of a window, as questions are answered with. */
  private[keyed] val span: Seq[Attribute] = Seq("start", "end").map(AttributeReference(_, TimestampType)())

  /** Begin and end of a window, and its latest record; whether it says that the window is gone. */
  val Head: Seq[(String, DataType)] =
    Seq("__start" -> TimestampType, "__end" -> TimestampType, "__latest" -> TimestampType, "__gone" -> BooleanType)

  /**
   * The frame of what becomes of windows.
   *
   * @param grouped an aggregation by event time, stream time in microseconds, and the columns of the group
   * @param groups how many columns the group has
   * @param rule [[WindowRule]] as JSON
   */
  def of(grouped: DataFrame, groups: Int, rule: String): DataFrame = {
    val frame = grouped.asInstanceOf[Dataset[Row]]
    val plan = frame.queryExecution.analyzed
    val head = Head.map { case (name, dataType) => AttributeReference(name, dataType)() }
    val rest = plan.output.drop(2).map(column => AttributeReference(column.name, column.dataType)())
    Dataset.ofRows(frame.sparkSession, RecordWindows(WindowRule.read(rule), groups, head ++ rest, plan))
  }
}

/** The rows of an aggregation under [[RecordWindows]], which says what is where in its output. */
private[keyed] final case class RecordRows(rows: RowsByGroup, groups: Int) {
  private val by = rows.group(2 until 2 + groups)

  /** The columns of the group. */
  val group: Seq[Attribute] = by.map(_.toAttribute)

  /** The group, event time and stream time, and the columns of the rows. */
  val read: Seq[NamedExpression] = {
    val when = Alias(PreciseTimestampConversion(rows.key(0), TimestampType, LongType), "__time")()
    (by :+ when :+ Alias(rows.key(1), "__stream_time")()) ++ rows.columns
  }

  def aggregates: RowAggregates = rows.aggregates(2 + groups, 2, group, read.map(_.toAttribute))
}
