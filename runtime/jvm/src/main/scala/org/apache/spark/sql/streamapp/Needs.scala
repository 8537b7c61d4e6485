// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Expression, Predicate}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, EmptyBlock, ExprCode, FalseLiteral, TrueLiteral}
import org.apache.spark.sql.classic.ClassicConversions.castToImpl

/**
 * Always true; as a filter behind a stateful operator it makes Spark keep all these columns in the state. Otherwise Spark
 * leaves out of the state what no later node uses, and a change of a later node would make the state useless.
 */
final case class Needs(children: Seq[Expression]) extends Predicate {
  override def nullable: Boolean = false
  override def eval(input: InternalRow): Any = true
  override protected def doGenCode(context: CodegenContext, code: ExprCode): ExprCode =
    code.copy(code = EmptyBlock, isNull = FalseLiteral, value = TrueLiteral)
  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): Expression = copy(newChildren)
}

object Needs {
  def register(spark: SparkSession): Unit =
    castToImpl(spark).sessionState.functionRegistry.createOrReplaceTempFunction("streamapp_needs", Needs(_), "scala_udf")
}
