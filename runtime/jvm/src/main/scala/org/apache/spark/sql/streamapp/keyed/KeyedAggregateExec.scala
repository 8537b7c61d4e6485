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
 * An aggregation as one operator: reads each group of an epoch once from the state, merges what has come, writes it back
 * and gives the result. It stands for four of Spark's (merge, restore, merge, save) and for the final aggregation, and is
 * made of their plan, when Spark has written down what it writes down of them.
 *
 * Windows close when their time has come, in the epoch in which it comes: see [[EpochTimes]]. Rows of windows that were
 * over before do not come here.
 *
 * @param finish Spark's final aggregation; with `save` it says what the state holds, and what becomes of it
 * @param save what Spark would save the state with
 * @param child gives groups and buffers of partial aggregations, each group in one partition
 */
case class KeyedAggregateExec(finish: BaseAggregateExec, save: StateStoreSaveExec, child: SparkPlan)
  extends UnaryExecNode with StatefulOperator {

  override def stateInfo: Option[StatefulOperatorStateInfo] = save.stateInfo
  override def output: Seq[Attribute] = finish.output
  override def outputPartitioning: Partitioning = finish.outputPartitioning

  def groupKeys: GroupKeys = GroupKeys(save.keyExpressions, Windows.of(save.keyExpressions))

  // Spark's own operator has done it, before this one was put in its place.
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

/** Puts [[KeyedAggregateExec]] in the place of the operators that Spark aggregates with. */
object KeyedAggregates extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case finish: BaseAggregateExec => unsorted(finish.child) match {
      case save: StateStoreSaveExec => KeyedAggregateExec(finish, save, shuffled(save))
      case _ => finish
    }
  }

  /** What the first of Spark's merges reads. */
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
