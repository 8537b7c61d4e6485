// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.nio.ByteBuffer
import java.util.{HashSet => JHashSet}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Count, ImperativeAggregate, TypedImperativeAggregate}
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.AGGREGATE_EXPRESSION
import org.apache.spark.sql.types.{DataType, LongType, MapType, VariantType}

/**
 * The number of different values of a group, over rows in which none of them is null: `count(DISTINCT a, b)`. Spark plans that by
 * shuffling rows a second time, which a stream's plan has no place for; here the values are in the group's buffer.
 */
final case class CountDistinct(children: Seq[Expression], mutableAggBufferOffset: Int = 0, inputAggBufferOffset: Int = 0)
  extends TypedImperativeAggregate[JHashSet[UnsafeRow]] {

  // Equal numbers are one value, however they are written: 0.0 equals -0.0.
  @transient private lazy val valuesOf = UnsafeProjection.create(children.map(NormalizeFloatingNumbers.normalize))

  override def prettyName: String = "count_distinct"
  override def sql: String = children.map(_.sql).mkString("count(DISTINCT ", ", ", ")")
  override def dataType: DataType = LongType
  override def nullable: Boolean = false
  override def defaultResult: Option[Literal] = Some(Literal(0L))

  override def checkInputDataTypes(): TypeCheckResult = {
    def hasNoOrder(of: DataType) = of.existsRecursively(part => part.isInstanceOf[MapType] || part.isInstanceOf[VariantType])
    children.find(child => hasNoOrder(child.dataType)) match {
      case Some(child) => TypeCheckResult.TypeCheckFailure(s"values of type ${child.dataType.sql} cannot be compared")
      case None => TypeCheckResult.TypeCheckSuccess
    }
  }

  override def createAggregationBuffer(): JHashSet[UnsafeRow] = new JHashSet[UnsafeRow]
  override def eval(buffer: JHashSet[UnsafeRow]): Any = buffer.size.toLong

  override def update(buffer: JHashSet[UnsafeRow], row: InternalRow): JHashSet[UnsafeRow] = {
    val values = valuesOf(row)
    if (!values.anyNull && !buffer.contains(values)) add(buffer, values.copy())
    buffer
  }

  override def merge(buffer: JHashSet[UnsafeRow], other: JHashSet[UnsafeRow]): JHashSet[UnsafeRow] = {
    other.forEach(values => add(buffer, values))
    buffer
  }

  private def add(buffer: JHashSet[UnsafeRow], values: UnsafeRow): Unit =
    if (buffer.add(values) && buffer.size > CountDistinct.Most) throw new GroupTooLargeException(
      s"$sql: a group has more than ${CountDistinct.Most} different values, which are all kept with it; " +
        "approx_count_distinct has no such bound, and groupBy by the values as well keeps each by itself")

  // No value is null, so the null bits are left out. Where rows differ in length, each has its length before it.
  private lazy val nulls = UnsafeRow.calculateBitSetWidthInBytes(children.length)
  private lazy val fixed = Option.when(children.forall(child => UnsafeRow.isFixedLength(child.dataType)))(children.length * java.lang.Long.BYTES)

  override def serialize(buffer: JHashSet[UnsafeRow]): Array[Byte] = {
    val lengths = if (fixed.isEmpty) buffer.size * Integer.BYTES else 0
    val bytes = ByteBuffer.allocate(lengths + buffer.asScala.iterator.map(_.getSizeInBytes - nulls).sum)
    buffer.forEach { values =>
      val length = values.getSizeInBytes - nulls
      if (fixed.isEmpty) bytes.putInt(length)
      bytes.put(values.getBytes, nulls, length)
    }
    bytes.array
  }

  override def deserialize(stored: Array[Byte]): JHashSet[UnsafeRow] = {
    val buffer = createAggregationBuffer()
    val bytes = ByteBuffer.wrap(stored)
    while (bytes.hasRemaining) {
      val row = new Array[Byte](nulls + fixed.getOrElse(bytes.getInt))
      bytes.get(row, nulls, row.length - nulls)
      val values = new UnsafeRow(children.length)
      values.pointTo(row, row.length)
      buffer.add(values)
    }
    buffer
  }

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)
  override protected def withNewChildrenInternal(children: IndexedSeq[Expression]): CountDistinct = copy(children = children)
}

object CountDistinct {
  /** The most values of a group: they are read and written whenever the group changes. */
  val Most = 100000
}

/** Replaces Spark's count of distinct values by [[CountDistinct]], as soon as Spark has resolved what is counted. */
object CountsDistinct extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveExpressionsWithPruning(_.containsPattern(AGGREGATE_EXPRESSION)) {
    case call @ AggregateExpression(Count(values), _, true, _, _) if values.forall(_.resolved) =>
      call.copy(aggregateFunction = CountDistinct(values), isDistinct = false)
  }
}
