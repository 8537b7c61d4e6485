// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.planning.PhysicalAggregation
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan, Project}

/**
 * An aggregation of Spark's, taken apart: an operator of ours gets its rows, and computes its aggregates.
 *
 * @param groups the columns that it groups by
 * @param calls its aggregates
 * @param results its output: the columns that it groups by, then the results of the aggregates
 * @param of the plan that gives its rows
 */
private[keyed] final class RowsByGroup(groups: Seq[NamedExpression], calls: Seq[AggregateExpression], results: Seq[NamedExpression],
    val of: LogicalPlan) {

  private val computed = groups.collect { case column: Alias => column.exprId -> column.child }.toMap

  /** The columns of its rows. */
  def columns: Seq[Attribute] = of.output

  /** The expression at that place of the output, over a row. */
  def key(place: Int): Expression = value(place).transform { case column: Attribute => computed.getOrElse(column.exprId, column) }

  /** The columns of the group, at those places of the output. Spark's `=` takes 0.0 and -0.0 as equal, and so must a hash of them. */
  def group(places: Range): Seq[Alias] = places.zipWithIndex.map { case (place, i) =>
    Alias(NormalizeFloatingNumbers.normalize(key(place)), s"__group_$i")(explicitMetadata = Some(results(place).metadata))
  }

  /**
   * The aggregates over rows with their group.
   *
   * @param from the place in the output behind the columns that it groups by
   * @param groupFrom the place of the first column of the group
   * @param group these columns, in the rows
   * @param read all columns of the rows
   */
  def aggregates(from: Int, groupFrom: Int, group: Seq[Attribute], read: Seq[Attribute]): RowAggregates = {
    // References of the results to columns of the group become references to these columns.
    val columnOf = group.indices.map(i => value(groupFrom + i) -> group(i)).collect { case (column: Attribute, found) => column.exprId -> found }.toMap
    val finished = results.drop(from).map(_.transform { case column: Attribute => columnOf.getOrElse(column.exprId, column) })
    RowAggregates(group, read, calls, finished.map(_.asInstanceOf[NamedExpression]))
  }

  private def value(place: Int): Expression = results(place) match {
    case Alias(value, _) => value
    case column => column
  }
}

/** An aggregation, even where the optimizer has put a projection on it. */
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
