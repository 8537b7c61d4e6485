// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans.logical.Aggregate
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.types._

/**
 * Aggregates over the changes of a table: a new row has the sign 1, an old row has -1. Counts and sums are sums of both, so
 * that groups need not keep their rows. Rounding would leave traces of old rows: see [[ExactSum]].
 */
object Retractions {
  /** Returns the frame, an aggregation by `count`, `sum` and `avg` alone, as one over changes. */
  def of(frame: DataFrame, sign: String): DataFrame = {
    val rows = frame.asInstanceOf[Dataset[Row]]
    rows.queryExecution.analyzed match {
      case aggregation @ Aggregate(_, results, child, _) =>
        val signOf = child.output.find(_.name == sign).getOrElse(throw new IllegalArgumentException(s"no column $sign"))
        val retracting = results.map(_.transformUp {
          case call: AggregateExpression if !isTime(call) => retract(call, signOf)
        }.asInstanceOf[NamedExpression])
        Dataset.ofRows(rows.sparkSession, aggregation.copy(aggregateExpressions = retracting))
      case other => throw new IllegalArgumentException(s"no aggregation:\n$other")
    }
  }

  // The latest event time of a group, over all changes, also of rows that were taken out.
  private def isTime(call: AggregateExpression): Boolean = call.aggregateFunction match {
    case Max(column: Attribute) => column.name == "__timestamp"
    case _ => false
  }

  private def retract(call: AggregateExpression, sign: Attribute): Expression = {
    def aggregate(function: AggregateFunction): Expression = function.toAggregateExpression(isDistinct = false, call.filter)
    def sum(value: Expression): Expression = aggregate(Sum(value))
    val one = Cast(sign, LongType)
    def count(there: Expression): Expression = Coalesce(Seq(sum(If(there, one, Literal(0L))), Literal(0L)))
    def total(value: Expression): Expression = value.dataType match {
      case _: IntegralType => sum(Multiply(Cast(value, LongType), one))
      case DoubleType | FloatType => aggregate(ExactSum(Cast(value, DoubleType), sign))
      case _ => sum(If(LessThan(sign, Literal(0)), UnaryMinus(value), value)) // decimals and intervals are exact
    }
    def ofAny(values: Expression, result: Expression): Expression = If(EqualTo(values, Literal(0L)), Literal(null, result.dataType), result)
    if (call.isDistinct) throw new IllegalArgumentException(s"${call.sql} has DISTINCT: a row's old value cannot be taken out of its result")
    call.aggregateFunction match {
      case Count(values) => count(values.map(IsNotNull(_): Expression).reduce(And))
      case add: Sum => ofAny(count(IsNotNull(add.child)), Cast(total(add.child), add.dataType))
      case mean: Average =>
        val values = count(IsNotNull(mean.child))
        ofAny(values, mean.dataType match {
          case exact: DecimalType => Cast(Divide(total(mean.child), Cast(values, DecimalType(20, 0))), exact)
          case _: DayTimeIntervalType => DivideDTInterval(total(mean.child), values)
          case _: YearMonthIntervalType => DivideYMInterval(total(mean.child), values)
          case _ => Divide(Cast(total(mean.child), DoubleType), Cast(values, DoubleType))
        })
      case other => throw new IllegalArgumentException(
        s"a row's old value cannot be taken out of the result of ${other.sql}, only out of one of count, sum or avg")
    }
  }
}
