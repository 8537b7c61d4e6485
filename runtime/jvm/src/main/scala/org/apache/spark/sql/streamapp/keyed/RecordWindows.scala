// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.types.{BooleanType, DataType, LongType, TimestampType}

/**
 * Windows that records make, per group: over an aggregation of Spark's by event time, stream time, and group. It is never planned
 * itself: a keyed task is made from it ([[RecordWindowed]]). The aggregation brings the aggregates through Spark's optimizer.
 *
 * @param groups the number of columns of a group
 * @param output [[RecordWindows.Head]], then the columns of the group, and the aggregates
 */
final case class RecordWindows(rule: WindowRule, groups: Int, output: Seq[Attribute], child: LogicalPlan) extends UnaryNode {
  // The state has all columns, whichever of them a later node uses.
  @transient override lazy val references: AttributeSet = child.outputSet
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def withNewChildInternal(newChild: LogicalPlan): RecordWindows = copy(child = newChild)
}

object RecordWindows {
  /** The begin and end of a window, as the answers to questions have them. */
  private[keyed] val span: Seq[Attribute] = Seq("start", "end").map(AttributeReference(_, TimestampType)())

  /** The begin and end of a window, its latest record, and whether the window is gone. */
  val Head: Seq[(String, DataType)] =
    Seq("__start" -> TimestampType, "__end" -> TimestampType, "__latest" -> TimestampType, "__gone" -> BooleanType)

  /**
   * The frame with the changes of windows.
   *
   * @param grouped an aggregation by event time, stream time in microseconds, and the columns of the group
   * @param groups the number of columns of the group
   * @param rule a [[WindowRule]] as JSON
   */
  def of(grouped: DataFrame, groups: Int, rule: String): DataFrame = {
    val frame = grouped.asInstanceOf[Dataset[Row]]
    val plan = frame.queryExecution.analyzed
    val head = Head.map { case (name, dataType) => AttributeReference(name, dataType)() }
    val rest = plan.output.drop(2).map(column => AttributeReference(column.name, column.dataType)())
    Dataset.ofRows(frame.sparkSession, RecordWindows(WindowRule.read(rule), groups, head ++ rest, plan))
  }
}

/** The rows of an aggregation under [[RecordWindows]], which knows the places in its output. */
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
