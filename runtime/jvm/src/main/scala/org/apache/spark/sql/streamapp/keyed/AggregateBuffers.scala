// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.BindReferences.bindReferences
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.types.StructType

/**
 * The aggregates of a node, bound to the rows that a task gets and keeps, as they are shipped to executors.
 *
 * Rows that come in are groups and buffers, as Spark's partial aggregation makes them. A buffer in the state has the
 * same columns without the groups.
 *
 * @param merge one expression per column of a buffer, over a buffer and an incoming row
 * @param imperative aggregates that change a buffer by their own code, and the place of their first column in it
 * @param results over group, buffer, and the values of the imperative aggregates
 */
final case class BoundAggregates(groupSchema: StructType, bufferSchema: StructType, initial: Seq[Expression],
    merge: Seq[Expression], imperative: Seq[(Int, ImperativeAggregate)], results: Seq[Expression])

object BoundAggregates {

  /**
   * @param groups columns of the group
   * @param calls the aggregates of a final aggregation
   * @param results over groups and the aggregates' results
   */
  def apply(groups: Seq[Attribute], calls: Seq[AggregateExpression], results: Seq[NamedExpression]): BoundAggregates = {
    val functions = calls.map(_.aggregateFunction)
    val buffers = functions.flatMap(_.aggBufferAttributes)
    val places = functions.scanLeft(0)(_ + _.aggBufferAttributes.length)
    val incoming = groups ++ functions.flatMap(_.inputAggBufferAttributes)
    val imperative = functions.zip(places).collect { case (function: ImperativeAggregate, place) =>
      place -> function.withNewMutableAggBufferOffset(place).withNewInputAggBufferOffset(groups.length + place)
    }
    val evaluated = calls.filter(_.aggregateFunction.isInstanceOf[ImperativeAggregate]).map(_.resultAttribute)
    val resultOf = calls.zip(functions).collect { case (call, function: DeclarativeAggregate) =>
      call.resultAttribute.exprId -> function.evaluateExpression
    }.toMap
    val finished = results.map(_.transform { case attribute: Attribute => resultOf.getOrElse(attribute.exprId, attribute) })
    BoundAggregates(
      DataTypeUtils.fromAttributes(groups),
      DataTypeUtils.fromAttributes(buffers),
      functions.flatMap {
        case function: DeclarativeAggregate => function.initialValues
        case function => function.aggBufferAttributes.map(column => Literal(null, column.dataType))
      },
      bindReferences(functions.flatMap {
        case function: DeclarativeAggregate => function.mergeExpressions
        case function => function.aggBufferAttributes.map(_ => NoOp)
      }, AttributeSeq.fromNormalOutput(buffers ++ incoming)),
      imperative,
      bindReferences(finished, AttributeSeq.fromNormalOutput(groups ++ buffers ++ evaluated)))
  }
}

/**
 * Catalyst's aggregates over buffers that a task keeps. Where all columns of a buffer can be set in an UnsafeRow, the buffer is one,
 * and goes to the state as it is; otherwise its columns are objects until it does. For one thread.
 */
final class AggregateBuffers(bound: BoundAggregates) {
  private val schema = bound.bufferSchema
  private val inPlace = schema.forall(field => UnsafeRow.isMutable(field.dataType)) && typed.isEmpty
  private val merging = MutableProjection.create(bound.merge)
  private val packed = UnsafeProjection.create(schema)
  private val resultOf = UnsafeProjection.create(bound.results)
  private val initial = UnsafeProjection.create(bound.initial)(InternalRow.empty).copy()
  private val values = new GenericInternalRow(bound.imperative.size)
  private val bufferAndRow = new JoinedRow
  private val groupAndBuffer = new JoinedRow
  private val andValues = new JoinedRow

  private def typed: Seq[(Int, TypedImperativeAggregate[_])] = bound.imperative.collect {
    case (place, function: TypedImperativeAggregate[_]) => place -> function
  }

  /** Returns a buffer for a group that has had no row yet. */
  def fresh(): InternalRow = {
    val buffer = open(initial)
    bound.imperative.foreach(_._2.initialize(buffer))
    buffer
  }

  /** Returns the buffer of a row from the state. */
  def fromState(row: UnsafeRow): InternalRow = {
    val buffer = open(row)
    typed.foreach { case (place, function) => buffer.update(place, function.deserialize(row.getBinary(place))) }
    buffer
  }

  /** Returns the row that the state keeps for a buffer; good until the next call. The buffer itself stays usable. */
  def toState(buffer: InternalRow): UnsafeRow = buffer match {
    case row: UnsafeRow => row
    case objects if typed.isEmpty => packed(objects)
    case objects =>
      val copy = new GenericInternalRow(schema.length)
      schema.indices.foreach(i => copy.update(i, objects.get(i, schema(i).dataType)))
      typed.foreach { case (_, function) => function.serializeAggregateBufferInPlace(copy) }
      packed(copy)
  }

  /** Merges an incoming row into the buffer of its group. */
  def merge(buffer: InternalRow, row: InternalRow): Unit = {
    merging.target(buffer)(bufferAndRow(buffer, row))
    bound.imperative.foreach(_._2.merge(buffer, row))
  }

  /** Returns the node's output row for a group; good until the next call. */
  def result(group: InternalRow, buffer: InternalRow): UnsafeRow = {
    var place = 0
    while (place < values.numFields) {
      values.update(place, bound.imperative(place)._2.eval(buffer))
      place += 1
    }
    resultOf(andValues(groupAndBuffer(group, buffer), values))
  }

  private def open(row: UnsafeRow): InternalRow =
    if (inPlace) row.copy()
    else {
      val buffer = new GenericInternalRow(schema.length)
      schema.indices.foreach(i => buffer.update(i, InternalRow.copyValue(row.get(i, schema(i).dataType))))
      buffer
    }
}
