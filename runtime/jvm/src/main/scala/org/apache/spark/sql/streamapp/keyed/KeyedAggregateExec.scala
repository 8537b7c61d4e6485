// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.util.{LinkedHashMap => JLinkedHashMap, Map => JMap}

import org.apache.hadoop.conf.Configuration

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SortExec, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.streaming.OutputMode

/**
 * An aggregation of a table as one operator: reads each group of an epoch once from the state, merges what has come, writes
 * it back and gives the result. It stands for four of Spark's (merge, restore, merge, save) and for the final aggregation,
 * keeps its state in the same form, and is made of their plan, when Spark has written down what it writes down of them.
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

  // Spark's own operator has done it, before this one was put in its place.
  override def validateAndMaybeEvolveStateSchema(hadoopConf: Configuration, batchId: Long,
      stateSchemaVersion: Int): List[StateSchemaValidationResult] = Nil

  override protected def doExecute(): RDD[InternalRow] = {
    val groups = save.keyExpressions
    val bound = BoundAggregates(groups, finish.aggregateExpressions, finish.resultExpressions)
    val incoming = child.output
    child.execute().mapPartitionsWithStateStore(
      getStateInfo, bound.groupSchema, bound.bufferSchema, NoPrefixKeyStateEncoderSpec(bound.groupSchema),
      session.sessionState, Some(session.streams.stateStoreCoordinator)) { (store, rows) =>
        new KeyedAggregation(store, rows, UnsafeProjection.create(groups, incoming), new AggregateBuffers(bound))
      }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): KeyedAggregateExec = copy(child = newChild)
}

/** The work of one task: results, in the order in which their groups have come. */
private final class KeyedAggregation(store: StateStore, rows: Iterator[InternalRow], groupOf: UnsafeProjection,
    buffers: AggregateBuffers) extends Iterator[InternalRow] {
  import KeyedAggregation._

  private val held = new JLinkedHashMap[UnsafeRow, InternalRow]()
  private var heldBytes = 0L
  private var results: java.util.Iterator[JMap.Entry[UnsafeRow, InternalRow]] = java.util.Collections.emptyIterator()
  private var committed = false

  override def hasNext: Boolean = {
    if (!results.hasNext && !committed) {
      held.clear()
      heldBytes = 0
      while (rows.hasNext && held.size < MostGroups && heldBytes < MostBytes) merge(rows.next())
      results = held.entrySet.iterator
      // Spark asks once more after the last row: nothing is held then.
      if (!results.hasNext) {
        store.commit()
        committed = true
      }
    }
    results.hasNext
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    val entry = results.next()
    store.put(entry.getKey, buffers.toState(entry.getValue))
    buffers.result(entry.getKey, entry.getValue)
  }

  private def merge(row: InternalRow): Unit = {
    val group = groupOf(row)
    var buffer = held.get(group)
    if (buffer == null) {
      val stored = store.get(group)
      if (stored != null) heldBytes += stored.getSizeInBytes
      buffer = if (stored == null) buffers.fresh() else buffers.fromState(stored)
      held.put(group.copy(), buffer)
    }
    buffers.merge(buffer, row)
    heldBytes += row.asInstanceOf[UnsafeRow].getSizeInBytes
  }
}

private object KeyedAggregation {
  // An epoch that changes more groups in a partition gives some of them several times: each result is right for its time.
  val MostGroups = 100000
  val MostBytes = 32L << 20
}

/** Puts [[KeyedAggregateExec]] in the place of the operators that Spark aggregates a table with. Windows stay Spark's. */
object KeyedAggregates extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case finish: BaseAggregateExec => unsorted(finish.child) match {
      case save: StateStoreSaveExec if save.outputMode.contains(OutputMode.Update) && !isTimed(save) =>
        KeyedAggregateExec(finish, save, shuffled(save))
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

  private def isTimed(save: StateStoreSaveExec): Boolean =
    save.child.output.exists(_.metadata.contains(EventTimeWatermark.delayKey))

  private def unsorted(plan: SparkPlan): SparkPlan = plan match {
    case sort: SortExec => sort.child
    case other => other
  }
}

/** Spark's plug-in point for rules of ours (`spark.sql.extensions`). */
class KeyedExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = extensions.injectColumnar(_ => new ColumnarRule {
    override def preColumnarTransitions: Rule[SparkPlan] = KeyedAggregates
  })
}
