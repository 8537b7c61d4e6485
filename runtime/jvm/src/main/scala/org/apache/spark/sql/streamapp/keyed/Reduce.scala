// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.{Column, SparkSession}
import org.apache.spark.sql.catalyst.analysis.{UnresolvedAttribute, UnresolvedExtractValue}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{DeclarativeAggregate, NoOp}
import org.apache.spark.sql.classic.ClassicConversions.castToImpl
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types.DataType

/**
 * Folds records one after the other into a struct, which is null before the first.
 *
 * @param first the result of one record alone
 * @param next the result of [[Accumulated]] and one more record
 * @param both the result of two [[Accumulated]], the later one as the record; None where none are ever merged
 */
final case class Reduce(first: Expression, next: Expression, both: Option[Expression]) extends DeclarativeAggregate {
  private lazy val soFar = AttributeReference("so_far", dataType)()

  override def children: Seq[Expression] = Seq(first, next) ++ both
  override def dataType: DataType = first.dataType.asNullable
  override def nullable: Boolean = true
  override lazy val aggBufferAttributes: Seq[AttributeReference] = Seq(soFar)
  override lazy val initialValues: Seq[Expression] = Seq(Literal(null, dataType))
  override lazy val updateExpressions: Seq[Expression] = Seq(If(IsNull(soFar), first, over(next, soFar, soFar)))
  override lazy val mergeExpressions: Seq[Expression] = both.fold[Seq[Expression]](Seq(NoOp)) { merged =>
    Seq(If(IsNull(soFar.left), soFar.right, If(IsNull(soFar.right), soFar.left, over(merged, soFar.left, soFar.right))))
  }
  override lazy val evaluateExpression: Expression = soFar

  private def over(expression: Expression, one: Expression, other: Expression): Expression = expression.transform {
    case Accumulated(_, isLater) => if (isLater) other else one
  }

  override protected def withNewChildrenInternal(children: IndexedSeq[Expression]): Reduce =
    Reduce(children(0), children(1), children.lift(2))
}

/** The result of the records so far, in an expression of [[Reduce]]; where two of them meet, one is the later one. */
final case class Accumulated(dataType: DataType, isLater: Boolean) extends LeafExpression with Unevaluable {
  override def nullable: Boolean = true
}

object Reduce {
  /**
   * @param first a struct over the columns of a record
   * @param next the result with one more record: a struct over its columns, and over NAME.column for the result so far
   * @param name NAME, in lower case
   * @param schema the schema of the struct, as JSON
   * @param merges whether two results may have to be merged; then `next` can use columns of the struct alone
   */
  def of(spark: SparkSession, first: Column, next: Column, name: String, schema: String, merges: Boolean): Column = {
    val session = castToImpl(spark)
    val struct = DataType.fromJson(schema)
    def field(of: Expression, names: Seq[String]) = names.foldLeft(of)((found, part) => UnresolvedExtractValue(found, Literal(part)))
    def over(ofTwo: Boolean) = session.expression(next).transform {
      case UnresolvedAttribute(head +: fields) if head.equalsIgnoreCase(name) => field(Accumulated(struct, isLater = false), fields)
      case UnresolvedAttribute(fields) if ofTwo => field(Accumulated(struct, isLater = true), fields)
    }
    val both = Option.when(merges)(over(ofTwo = true))
    ExpressionUtils.column(Reduce(session.expression(first), over(ofTwo = false), both).toAggregateExpression())
  }
}
