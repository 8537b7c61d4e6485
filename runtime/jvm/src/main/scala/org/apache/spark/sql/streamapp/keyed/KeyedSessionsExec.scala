// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.streamapp.RuntimeConf

/**
 * Keeps the sessions of groups that are open. A session closes by the time of all source partitions ([[EpochTimes]]); whether a
 * record finds it open, and whether it is late, goes by that of its own.
 *
 * @param groups how many columns a group has: the first of the child's
 * @param child gives rows in the order of groups, and of stream time within each
 */
case class KeyedSessionsExec(sessions: Sessions, groups: Int, aggregates: RowAggregates, output: Seq[Attribute], child: SparkPlan)
  extends UnaryExecNode with KeyedOperator {
  override def producedAttributes: AttributeSet = AttributeSet(output)

  def columns: Seq[Attribute] = child.output.take(groups)
  def layout: SessionLayout = SessionLayout(columns, aggregates.buffers.bufferSchema)

  override protected def doExecute(): RDD[InternalRow] = {
    val times = EpochTimes.begin(sparkContext, RuntimeConf(session.conf.getAll), getStateInfo, Some(sessions.lasting))
    val (rule, of, calls, results, kept) = (sessions, columns, aggregates, output, layout)
    child.execute().mapPartitionsWithStateStore(getStateInfo, kept.keys, kept.values, kept.encoding, session.sessionState,
      Some(session.streams.stateStoreCoordinator), useColumnFamilies = true) { (store, rows) =>
        new SessionsOfTask(store, rows, rule, of, calls, new SessionState(store, rule, kept), results, times)
      }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): KeyedSessionsExec = copy(child = newChild)
}
