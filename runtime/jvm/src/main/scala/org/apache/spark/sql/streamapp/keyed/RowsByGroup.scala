// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.planning.PhysicalAggregation
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.{REPARTITION_BY_NUM, ShuffleExchangeExec}
import org.apache.spark.sql.internal.SQLConf

/**
 * An aggregation of Spark's that is taken apart: an operator of ours gets its rows, and does its aggregates.
 *
 * @param groups what it groups by
 * @param calls its aggregates
 * @param results its output: columns that it groups by, and then what is made of the aggregates
 * @param of what gives its rows
 */
private[keyed] final class RowsByGroup(groups: Seq[NamedExpression], calls: Seq[AggregateExpression], results: Seq[NamedExpression],
    val of: LogicalPlan) {

  private val computed = groups.collect { case column: Alias => column.exprId -> column.child }.toMap

  /** The columns of its rows. */
  def columns: Seq[Attribute] = of.output

  /** What is in that place of the output, over a row. */
  def key(place: Int): Expression = value(place).transform { case column: Attribute => computed.getOrElse(column.exprId, column) }

  /** What says the order of rows, in those places of the output. What one row was made into stays in its order. */
  def order(places: Range): Seq[Alias] = keys(places) :+ Alias(MonotonicallyIncreasingID(), "__number")()

  /** What is in those places of the output. */
  def keys(places: Range): Seq[Alias] = places.zipWithIndex.map { case (place, i) => Alias(key(place), s"__order_$i")() }

  /** The columns of the group, in those places of the output. Spark's `=` takes 0.0 and -0.0 for one, and so must what hashes them. */
  def group(places: Range): Seq[Alias] = places.zipWithIndex.map { case (place, i) =>
    Alias(NormalizeFloatingNumbers.normalize(key(place)), s"__group_$i")(explicitMetadata = Some(results(place).metadata))
  }

  /**
   * The aggregates over rows that have come through a shuffle.
   *
   * @param from the place in the output behind the columns that it groups by
   * @param groupFrom the place of the first column of the group
   * @param group these columns, in the rows
   * @param read all columns of the rows
   * @param before what comes before the aggregates in the result
   */
  def aggregates(from: Int, groupFrom: Int, group: Seq[Attribute], read: Seq[Attribute], before: Seq[Attribute] = Nil): RowAggregates = {
    // What the results say of their group, they say of these columns.
    val columnOf = group.indices.map(i => value(groupFrom + i) -> group(i)).collect { case (column: Attribute, found) => column.exprId -> found }.toMap
    val finished = results.drop(from).map(_.transform { case column: Attribute => columnOf.getOrElse(column.exprId, column) })
    RowAggregates(group, read, calls, before ++ finished.map(_.asInstanceOf[NamedExpression]))
  }

  private def value(place: Int): Expression = results(place) match {
    case Alias(value, _) => value
    case column => column
  }
}

private[keyed] object RowsByGroup {
  def shuffled(group: Seq[Attribute], rows: SparkPlan): SparkPlan =
    ShuffleExchangeExec(HashPartitioning(group, SQLConf.get.numShufflePartitions), rows, REPARTITION_BY_NUM)
}

/** An aggregation, also where the optimizer has put a projection on it. */
private[keyed] object Aggregation {
  def unapply(plan: LogicalPlan): Option[RowsByGroup] = whole(plan).collect {
    case PhysicalAggregation(groups, calls, results, rows) => new RowsByGroup(groups, calls, results, rows)
  }

  def whole(plan: LogicalPlan): Option[Aggregate] = plan match {
    case aggregate: Aggregate => Some(aggregate)
    case Project(list, aggregate: Aggregate) =>
      val columns = aggregate.aggregateExpressions.collect { case alias: Alias => alias.exprId -> alias.child }.toMap
      val inlined = list.map(_.transform { case attribute: Attribute => columns.getOrElse(attribute.exprId, attribute) })
      Some(aggregate.copy(aggregateExpressions = inlined.map(_.asInstanceOf[NamedExpression])))
    case _ => None
  }
}
