// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{GenerateExec, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.streamapp.EpochStyle

/**
 * A plan that stays on the driver when the operator above it goes to the tasks. Spark's [[GenerateExec]], which sends rows to several
 * sinks, is a part of what its tasks get, with all that is below it; of that it needs no more than the columns.
 */
final case class PlanOnDriver(output: Seq[Attribute], @transient child: SparkPlan) extends UnaryExecNode {
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def doExecute(): RDD[InternalRow] = child.execute()
  override protected def withNewChildInternal(newChild: SparkPlan): PlanOnDriver = copy(child = newChild)
}

/** Keeps plans on the driver in epochs that run without generated code; generated code has no plan. */
object PlansOnDriver extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan =
    if (EpochStyle.compiles) plan
    else plan.transformUp { case generate: GenerateExec => generate.withNewChildren(Seq(PlanOnDriver(generate.child.output, generate.child))) }
}
