// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.planning.PhysicalAggregation
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan, Project, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.execution.{ProjectExec, SortExec, SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.exchange.{REPARTITION_BY_NUM, ShuffleExchangeExec}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{BooleanType, DataType, LongType, TimestampType}

/**
 * Windows that records make, of groups: over an aggregation of Spark's by event time, stream time and group. That one is never run: it brings
 * the aggregates through Spark's optimizer.
 *
 * @param groups how many columns a group has
 * @param late how many columns a late record has, which come behind those of the group
 * @param output [[RecordWindows.Head]], then the columns of the group, those of a late record, and the aggregates
 */
final case class RecordWindows(rule: WindowRule, groups: Int, late: Int, output: Seq[Attribute], child: LogicalPlan) extends UnaryNode {
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
  /** The columns of the aggregation that are before those of the group: event time and stream time. */
  private[keyed] val Times = 2

  /**
   * The frame of what becomes of windows.
   *
   * @param grouped an aggregation by event time, stream time in microseconds, the columns of the group, and those that a late record
   *                is to give
   * @param groups how many columns the group has
   * @param late how many a late record
   * @param rule [[WindowRule]] as JSON
   */
  def of(grouped: DataFrame, groups: Int, late: Int, rule: String): DataFrame = {
    val frame = grouped.asInstanceOf[Dataset[Row]]
    val plan = frame.queryExecution.analyzed
    val head = Head.map { case (name, dataType) => AttributeReference(name, dataType)() }
    val rest = plan.output.drop(Times).map(column => AttributeReference(column.name, column.dataType)())
    Dataset.ofRows(frame.sparkSession, RecordWindows(WindowRule.read(rule), groups, late, head ++ rest, plan))
  }
}

/**
 * Plans [[RecordWindows]] with a shuffle by group and a sort: a task reads one group after the other, each in the order of stream
 * time. Within a source partition that is the order of offsets.
 */
object RecordWindowsStrategy extends SparkStrategy {
  import RecordWindows.Times

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case RecordWindows(rule, count, late, output, Aggregation(PhysicalAggregation(groups, calls, results, rows))) =>
      val byId = groups.collect { case Alias(computed, _) => computed }.zip(groups.collect { case alias: Alias => alias.exprId })
        .map(_.swap).toMap
      val width = Times + count + late
      val Seq(time, streamTime, columns @ _*) = results.take(width).map(valueOf(_).transform {
        case attribute: Attribute => byId.getOrElse(attribute.exprId, attribute)
      })
      val (keys, ofLate) = columns.splitAt(count)
      val by = keys.zipWithIndex.map { case (key, i) => Alias(NormalizeFloatingNumbers.normalize(key), s"__group_$i")() }
      val order = Seq(Alias(streamTime, "__stream_time")(), Alias(MonotonicallyIncreasingID(), "__number")())
      val when = Alias(PreciseTimestampConversion(time, TimestampType, LongType), "__time")()
      val record = ofLate.zipWithIndex.map { case (column, i) => Alias(column, s"__late_$i")() }
      val read = ProjectExec(by ++ (when +: order) ++ record ++ rows.output, planLater(rows))
      val group = by.map(_.toAttribute)
      // What the results say of their group, they say of these columns.
      val columnOf = results.slice(Times, Times + count).map(valueOf).zip(group).collect {
        case (attribute: Attribute, column) => attribute.exprId -> column
      }.toMap
      val finished = results.drop(width).map(_.transform {
        case attribute: Attribute => columnOf.getOrElse(attribute.exprId, attribute)
      }.asInstanceOf[NamedExpression])
      val shuffled = ShuffleExchangeExec(HashPartitioning(group, SQLConf.get.numShufflePartitions), read, REPARTITION_BY_NUM)
      val sorted = SortExec((group ++ order.map(_.toAttribute)).map(SortOrder(_, Ascending)), global = false, shuffled)
      Seq(RecordWindowsExec(rule, count, late, RowAggregates(group, read.output, calls, finished), output, sorted))
    case _ => Nil
  }

  private def valueOf(result: NamedExpression): Expression = result match {
    case Alias(value, _) => value
    case attribute => attribute
  }
}

/** An aggregation, also where the optimizer has put a projection on it. */
private object Aggregation {
  def unapply(plan: LogicalPlan): Option[Aggregate] = plan match {
    case aggregate: Aggregate => Some(aggregate)
    case Project(list, aggregate: Aggregate) =>
      val columns = aggregate.aggregateExpressions.collect { case alias: Alias => alias.exprId -> alias.child }.toMap
      val inlined = list.map(_.transform { case attribute: Attribute => columns.getOrElse(attribute.exprId, attribute) })
      Some(aggregate.copy(aggregateExpressions = inlined.map(_.asInstanceOf[NamedExpression])))
    case _ => None
  }
}
