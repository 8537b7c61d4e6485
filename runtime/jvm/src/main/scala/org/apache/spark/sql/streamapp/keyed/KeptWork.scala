// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.streamapp.EpochStyle

/** The work of a task, with its expressions ready to run. For one thread at a time. */
private[keyed] trait Work {
  /** Whether the expressions are compiled; else they are interpreted. */
  val isCompiled: Boolean = EpochStyle.compiles

  /** Ends the epoch. */
  def end(): Unit = ()
}

/**
 * The work of this process's state partitions, from epoch to epoch: making expressions ready takes longer than a small epoch.
 */
private[keyed] class KeptWork[T <: Work] {
  private val kept = new ConcurrentHashMap[(String, Int), (UUID, T)]()

  /** The work of this run of the query, or a new one; a large epoch does not take the interpreted expressions of a small epoch. */
  def take(state: StatefulOperatorStateInfo, partition: Int, make: => T): T =
    Option(kept.remove((state.checkpointLocation, partition)))
      .collect { case (run, work) if run == state.queryRunId && (work.isCompiled || !EpochStyle.compiles) => work }.getOrElse(make)

  def giveBack(state: StatefulOperatorStateInfo, partition: Int, work: T): Unit = {
    work.end()
    kept.put((state.checkpointLocation, partition), (state.queryRunId, work))
  }

  /** Drops the work of a task that has failed. */
  def drop(state: StatefulOperatorStateInfo, partition: Int): Unit = kept.remove((state.checkpointLocation, partition))
}
