// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.BindReferences.{bindReference, bindReferences}
import org.apache.spark.sql.catalyst.expressions.aggregate._

/**
 * The aggregates of a node whose rows come one by one, as they are shipped to executors.
 *
 * @param buffers how buffers are kept, merged and finished; a row to be merged is a group and another buffer
 * @param update one expression per column of a buffer, over a buffer and a row
 * @param imperative aggregates that change a buffer by their own code, and the rows that they take
 */
final case class RowAggregates(buffers: BoundAggregates, update: Seq[Expression],
    imperative: Seq[(ImperativeAggregate, Option[Expression])])

object RowAggregates {

  /**
   * @param group the columns of a row that are its group
   * @param row all columns of a row
   * @param results the results, over groups and the calls' results
   */
  def apply(group: Seq[Attribute], row: Seq[Attribute], calls: Seq[AggregateExpression], results: Seq[NamedExpression]): RowAggregates = {
    val functions = calls.map(_.aggregateFunction)
    val places = functions.scanLeft(0)(_ + _.aggBufferAttributes.length)
    val update = calls.flatMap { call =>
      call.aggregateFunction match {
        case function: DeclarativeAggregate => updates(call, function)
        case function => function.aggBufferAttributes.map(_ => NoOp)
      }
    }
    val imperative = calls.zip(places).collect { case (AggregateExpression(function: ImperativeAggregate, _, _, filter, _), place) =>
      val bound: ImperativeAggregate = bindReference(function, AttributeSeq.fromNormalOutput(row))
      bound.withNewMutableAggBufferOffset(place) -> filter.map(bindReference(_, AttributeSeq.fromNormalOutput(row)))
    }
    RowAggregates(BoundAggregates(group, calls, results),
      bindReferences(update, AttributeSeq.fromNormalOutput(functions.flatMap(_.aggBufferAttributes) ++ row)), imperative)
  }

  /** The columns of the function's buffer when it has had one more row, over buffer and row. A row that the call's filter leaves out changes none. */
  def updates(call: AggregateExpression, function: DeclarativeAggregate): Seq[Expression] =
    function.updateExpressions.zip(function.aggBufferAttributes).map { case (updated, unchanged) =>
      call.filter.fold(updated)(If(_, updated, unchanged))
    }
}

/** Adds rows to buffers of [[AggregateBuffers]]. For one thread. */
final class RowUpdates(aggregates: RowAggregates) {
  private val updating = MutableProjection.create(aggregates.update)
  private val imperative = aggregates.imperative.map { case (function, filter) => function -> filter.map(Predicate.create(_)) }
  private val bufferAndRow = new JoinedRow

  def add(buffer: InternalRow, row: InternalRow): Unit = {
    updating.target(buffer)(bufferAndRow(buffer, row))
    imperative.foreach { case (function, filter) => if (filter.forall(_.eval(row))) function.update(buffer, row) }
  }
}
