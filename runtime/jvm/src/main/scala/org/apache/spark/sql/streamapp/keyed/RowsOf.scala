// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.BindReferences.bindReference
import org.apache.spark.sql.catalyst.expressions.Literal.FalseLiteral
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LeafNode, LocalRelation, LogicalPlan, Project, Statistics}
import org.apache.spark.sql.classic.ClassicConversions.castToImpl

/** Stands for the rows that a processor gets, so that the work on them can be written as a DataFrame. */
final case class GivenRows(output: Seq[Attribute]) extends LeafNode {
  override def computeStats(): Statistics = Statistics(sizeInBytes = 1)
}

/**
 * The work of a DataFrame over [[GivenRows]] on one row, as expressions over that row's columns.
 *
 * @param values one for each column of the result
 * @param condition rows for which it is not true have no result
 */
private[keyed] final case class RowsOf(values: Seq[Expression], condition: Option[Expression]) {
  def projection: UnsafeProjection = UnsafeProjection.create(values)
}

private[keyed] object RowsOf {
  /** @throws IllegalArgumentException when the frame is more than columns and conditions over one row */
  def apply(frame: DataFrame): RowsOf = of(castToImpl(frame).queryExecution.optimizedPlan)

  /** The same for an optimized plan. */
  def of(plan: LogicalPlan): RowsOf = {
    plan.collectLeaves() match {
      case Seq(given: GivenRows) =>
        val (values, conditions) = inline(plan)
        RowsOf(values.map(bindReference[Expression](_, given.output)),
          conditions.reduceOption(And).map(bindReference[Expression](_, given.output)))
      // Spark has found that no row passes.
      case Seq(nothing: LocalRelation) if nothing.data.isEmpty =>
        RowsOf(plan.output.map(column => Literal(null, column.dataType)), Some(FalseLiteral))
      case _ => refuse(plan)
    }
  }

  private def inline(plan: LogicalPlan): (Seq[Expression], Seq[Expression]) = plan match {
    case GivenRows(output) => (output, Nil)
    case Project(columns, child) =>
      val (values, conditions) = inline(child)
      val known = AttributeMap(child.output.zip(values))
      (columns.map { case Alias(value, _) => within(value, known); case column => within(column, known) }, conditions)
    case Filter(condition, child) =>
      val (values, conditions) = inline(child)
      (values, conditions :+ within(condition, AttributeMap(child.output.zip(values))))
    case other => refuse(other)
  }

  private def within(expression: Expression, known: AttributeMap[Expression]): Expression =
    expression.transform { case column: Attribute => known.getOrElse(column, column) }

  private def refuse(plan: LogicalPlan): Nothing =
    throw new IllegalArgumentException(s"not computed of one row:\n$plan")
}
