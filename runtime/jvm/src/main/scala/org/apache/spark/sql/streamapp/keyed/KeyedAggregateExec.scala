// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.hadoop.conf.Configuration

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, NamedExpression}
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, DeclarativeAggregate}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, ProjectExec, SortExec, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.streamapp.{EpochStyle, FromJson, StandingPlanStrategy, ToJson}

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
    val times = groupKeys.windows.map(windows => TaskClosing.of(this, getStateInfo, Some(windows.lasting)))
    val definition = OncePerRun.send(session.sparkContext, getStateInfo, "aggregation") {
      val (keys, aggregates) = (groupKeys, BoundAggregates(save.keyExpressions, finish.aggregateExpressions, finish.resultExpressions))
      val store = StoreForm(StateStoreId.DEFAULT_STORE_NAME, keys.schema, aggregates.bufferSchema, keys.encoding, hasFamilies = false)
      AggregationDefinition(store, Packed(AggregationWork(keys, child.output, aggregates)))
    }
    new KeyedAggregateRDD(child.execute(), this, getStateInfo, definition, times)
  }

  override protected def withNewChildInternal(newChild: SparkPlan): KeyedAggregateExec = copy(child = newChild)
}

/** Merges the groups of each state partition. */
private final class KeyedAggregateRDD(rows: RDD[InternalRow], @transient operator: KeyedAggregateExec, state: StatefulOperatorStateInfo,
    definition: Broadcast[AggregationDefinition], times: Option[TaskClosing]) extends StatePartitionsRDD(rows, operator, state) {

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val AggregationDefinition(form, packed) = definition.value
    val input = firstParent[InternalRow].iterator(split, context)
    val store = open(form, split.index, context)
    val work = AggregationsAtWork.take(state, split.index, new AggregationAtWork(packed.open()))
    new KeyedAggregation(store, input, work, times, () => AggregationsAtWork.giveBack(state, split.index, work))
  }
}

/** The plan without the sort that an aggregation of Spark's asks for. */
private object Unsorted {
  def apply(plan: SparkPlan): SparkPlan = plan match {
    case sort: SortExec => sort.child
    case other => other
  }
}

/** Replaces the operators that Spark aggregates with by [[KeyedAggregateExec]]. */
object KeyedAggregates extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case finish: BaseAggregateExec => Unsorted(finish.child) match {
      case save: StateStoreSaveExec =>
        KeyedAggregateExec(finish, save, Combining.whereItPays(shuffled(save), Windows.of(save.keyExpressions)))
      case _ => finish
    }
  }

  /** The input of the first of Spark's merges. */
  private def shuffled(save: StateStoreSaveExec): SparkPlan = Unsorted(save.child) match {
    case again: BaseAggregateExec => Unsorted(again.child) match {
      case restore: StateStoreRestoreExec => Unsorted(restore.child) match {
        case first: BaseAggregateExec => Unsorted(first.child)
        case other => changed(other)
      }
      case other => changed(other)
    }
    case other => changed(other)
  }

  private def changed(plan: SparkPlan): Nothing =
    throw new IllegalStateException(s"Spark plans a streaming aggregation in another way than it did: found\n$plan")
}

/**
 * Combining an epoch's rows before the shuffle. Where there are few of them, preparing to combine them takes a task longer than to send
 * each for itself, as the buffer of a group that has this row alone.
 */
private object Combining {
  /** @param plan the shuffle of partial aggregations */
  def whereItPays(plan: SparkPlan, windows: Option[Windows]): SparkPlan = plan match {
    // In overlapping windows a few records are many rows.
    case exchange: ShuffleExchangeExec if !EpochStyle.compiles && !windows.exists(_.overlap) => Unsorted(exchange.child) match {
      case partial: BaseAggregateExec => uncombined(partial).fold(plan)(rows => exchange.withNewChildren(Seq(rows)))
      case _ => plan
    }
    case _ => plan
  }

  // An imperative aggregate changes a buffer by its own code.
  private def uncombined(partial: BaseAggregateExec): Option[SparkPlan] = {
    val buffers = partial.aggregateExpressions.map(bufferOf)
    Option.when(buffers.forall(_.isDefined))(
      ProjectExec(partial.groupingExpressions ++ buffers.flatten.flatten, Unsorted(partial.child)))
  }

  /** The columns of a buffer that has had one row, over that row. */
  private def bufferOf(call: AggregateExpression): Option[Seq[NamedExpression]] = call.aggregateFunction match {
    case function: DeclarativeAggregate =>
      val initial = function.aggBufferAttributes.map(_.exprId).zip(function.initialValues).toMap
      Some(RowAggregates.updates(call, function).zip(function.inputAggBufferAttributes).map { case (updated, column) =>
        Alias(updated.transform { case attribute: Attribute => initial.getOrElse(attribute.exprId, attribute) }, column.name)(column.exprId)
      })
    case _ => None
  }
}

/** Puts the keyed operators, the driver's shuffle, and what stays on the driver into a physical plan. */
private object KeyedPlans extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = PlansOnDriver(DriverShuffles(KeyedAggregates(plan)))
}

/** Spark's plug-in point for rules of ours (`spark.sql.extensions`). */
class KeyedExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectResolutionRule(_ => CountsDistinct)
    extensions.injectResolutionRule(_ => EpochTime)
    extensions.injectPostHocResolutionRule(_ => FromJson)
    extensions.injectOptimizerRule(_ => ToJson)
    extensions.injectPlannerStrategy(_ => StandingPlanStrategy)
    extensions.injectPlannerStrategy(_ => StreamTimeStrategy)
    extensions.injectPlannerStrategy(_ => KeyedTaskStrategy)
    extensions.injectColumnar(_ => new ColumnarRule {
      override def preColumnarTransitions: Rule[SparkPlan] = KeyedPlans
    })
  }
}
