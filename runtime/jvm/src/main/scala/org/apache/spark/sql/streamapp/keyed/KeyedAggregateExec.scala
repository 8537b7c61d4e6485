// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.hadoop.conf.Configuration

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SortExec, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.streamapp.{FromJson, ToJson}

/**
 * An aggregation as one operator: it reads each group of an epoch once from the state, merges the new rows, writes the group back
 * and gives the result. It replaces four operators of Spark's (merge, restore, merge, save) and the final aggregation. It is made of
 * their plan, after Spark has written down what it records of them.
 *
 * Windows close in the epoch in which their time comes: see [[EpochTimes]]. Rows of windows that were over before do not come here.
 *
 * @param finish Spark's final aggregation; with `save` it defines the content of the state, and the results
 * @param save Spark's operator that would save the state
 * @param child the plan that gives groups and buffers of partial aggregations, each group in one partition
 */
case class KeyedAggregateExec(finish: BaseAggregateExec, save: StateStoreSaveExec, child: SparkPlan)
  extends UnaryExecNode with StatefulOperator {

  override def stateInfo: Option[StatefulOperatorStateInfo] = save.stateInfo
  override def output: Seq[Attribute] = finish.output
  override def outputPartitioning: Partitioning = finish.outputPartitioning

  def groupKeys: GroupKeys = GroupKeys(save.keyExpressions, Windows.of(save.keyExpressions))

  // Spark's own operator did this before this one took its place.
  override def validateAndMaybeEvolveStateSchema(hadoopConf: Configuration, batchId: Long,
      stateSchemaVersion: Int): List[StateSchemaValidationResult] = Nil

  override protected def doExecute(): RDD[InternalRow] = {
    val keys = groupKeys
    val bound = BoundAggregates(save.keyExpressions, finish.aggregateExpressions, finish.resultExpressions)
    val incoming = child.output
    val times = keys.windows.map(windows => TaskClosing.of(this, getStateInfo, Some(windows.lasting)))
    child.execute().mapPartitionsWithStateStore(
      getStateInfo, keys.schema, bound.bufferSchema, keys.encoding,
      session.sessionState, Some(session.streams.stateStoreCoordinator)) { (store, rows) =>
        val buffers = new AggregateBuffers(bound)
        new KeyedAggregation(store, rows, keys, incoming, buffers, times)
      }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): KeyedAggregateExec = copy(child = newChild)
}

/** Replaces the operators that Spark aggregates with by [[KeyedAggregateExec]]. */
object KeyedAggregates extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case finish: BaseAggregateExec => unsorted(finish.child) match {
      case save: StateStoreSaveExec => KeyedAggregateExec(finish, save, shuffled(save))
      case _ => finish
    }
  }

  /** The input of the first of Spark's merges. */
  private def shuffled(save: StateStoreSaveExec): SparkPlan = unsorted(save.child) match {
    case again: BaseAggregateExec => unsorted(again.child) match {
      case restore: StateStoreRestoreExec => unsorted(restore.child) match {
        case first: BaseAggregateExec => unsorted(first.child)
        case other => changed(other)
      }
      case other => changed(other)
    }
    case other => changed(other)
  }

  private def changed(plan: SparkPlan): Nothing =
    throw new IllegalStateException(s"Spark plans a streaming aggregation in another way than it did: found\n$plan")

  private def unsorted(plan: SparkPlan): SparkPlan = plan match {
    case sort: SortExec => sort.child
    case other => other
  }
}

/** Spark's plug-in point for rules of ours (`spark.sql.extensions`). */
class KeyedExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectResolutionRule(_ => CountsDistinct)
    extensions.injectResolutionRule(_ => EpochTime)
    extensions.injectPostHocResolutionRule(_ => FromJson)
    extensions.injectOptimizerRule(_ => ToJson)
    extensions.injectPlannerStrategy(_ => StreamTimeStrategy)
    extensions.injectPlannerStrategy(_ => KeyedTaskStrategy)
    extensions.injectColumnar(_ => new ColumnarRule {
      override def preColumnarTransitions: Rule[SparkPlan] = KeyedAggregates
    })
  }
}
