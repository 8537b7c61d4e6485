// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans.logical.Aggregate
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.types._

/** What a row was cannot be taken out of the aggregate exactly. */
final class NotRetractableException(message: String) extends RuntimeException(message)

/**
 * Aggregates over the changes of a table: a row with the sign 1 is one that is, with -1 one that was. Counts and sums of
 * exact numbers are sums of both, so that groups need not keep their rows. Rounding would let traces of what was stay.
 */
object Retractions {
  /**
   * The same frame, an aggregation, over changes.
   *
   * @throws NotRetractableException when one of its aggregates is another one, or over numbers that are rounded
   */
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

  // The latest event time of a group: of all changes, what was taken out included.
  private def isTime(call: AggregateExpression): Boolean = call.aggregateFunction match {
    case Max(column: Attribute) => column.name == "__timestamp"
    case _ => false
  }

  private def retract(call: AggregateExpression, sign: Attribute): Expression = {
    if (call.isDistinct) refuse(call, "counts or adds distinct values")
    def sum(value: Expression): Expression = Sum(value).toAggregateExpression(isDistinct = false, call.filter)
    val one = Cast(sign, LongType)
    def count(there: Expression): Expression = Coalesce(Seq(sum(If(there, one, Literal(0L))), Literal(0L)))
    def signed(value: Expression): Expression = value.dataType match {
      case _: DecimalType => If(LessThan(sign, Literal(0)), UnaryMinus(value), value)
      case _: IntegralType => Multiply(Cast(value, LongType), one)
      case other => refuse(call, s"adds ${other.sql}, which is rounded")
    }
    call.aggregateFunction match {
      case Count(values) => count(values.map(IsNotNull(_): Expression).reduce(And))
      case add: Sum => If(EqualTo(count(IsNotNull(add.child)), Literal(0L)), Literal(null, add.dataType), Cast(sum(signed(add.child)), add.dataType))
      case mean: Average =>
        val values = count(IsNotNull(mean.child))
        val total = sum(signed(mean.child))
        mean.dataType match {
          case exact: DecimalType => If(EqualTo(values, Literal(0L)), Literal(null, exact),
            Cast(Divide(total, Cast(values, DecimalType(20, 0))), exact))
          case other => If(EqualTo(values, Literal(0L)), Literal(null, other), Divide(Cast(total, DoubleType), Cast(values, DoubleType)))
        }
      case other => refuse(call, "is none of count, sum and avg")
    }
  }

  private def refuse(call: AggregateExpression, why: String): Nothing =
    throw new NotRetractableException(s"`${call.aggregateFunction.sql}` $why: what a row of the table was cannot be taken out of it again")
}
