// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import org.apache.spark.sql.catalyst.expressions.{Expression, Literal, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.json.StructsToJsonEvaluator
import org.apache.spark.sql.catalyst.expressions.objects.Invoke
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern
import org.apache.spark.sql.types.DataType

/**
 * Spark's `to_json`, called directly. Spark itself calls it by the name of a method, and asks Scala's reflection for the
 * spelling: nothing else of a start does, and it takes a third of a second.
 */
final case class ToJson(evaluator: StructsToJsonEvaluator, child: Expression, dataType: DataType) extends UnaryExpression {
  override def nullable: Boolean = child.nullable
  override protected def nullSafeEval(value: Any): Any = evaluator.evaluate(value)
  override protected def doGenCode(context: CodegenContext, code: ExprCode): ExprCode = {
    val writer = context.addReferenceObj("toJson", evaluator)
    nullSafeCodeGen(context, code, value => s"${code.value} = (UTF8String) $writer.evaluate($value);")
  }
  override protected def withNewChildInternal(newChild: Expression): Expression = copy(child = newChild)
}

/** Replaces the call by name that the optimizer has made. */
object ToJson extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    plan.transformAllExpressionsWithPruning(_.containsPattern(TreePattern.INVOKE)) {
      case Invoke(Literal(evaluator: StructsToJsonEvaluator, _), "evaluate", dataType, Seq(child), _, _, _, _) =>
        ToJson(evaluator, child, dataType)
    }
}
