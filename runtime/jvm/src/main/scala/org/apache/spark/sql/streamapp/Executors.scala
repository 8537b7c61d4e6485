// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.{Map => JMap}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.deploy.LocalWorkers
import org.apache.spark.scheduler.{ExecutorDecommissionInfo, SparkListener, SparkListenerExecutorRemoved}
import org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend
import org.apache.spark.sql.classic.SparkSession

/**
 * The executors of a running application: scales them up and down without a restart. State moves with the tasks, through
 * the changelogs.
 *
 * A surplus executor is decommissioned: it gets no further task, finishes the tasks that it has, and leaves. An executor
 * that was requested and comes up only after fewer were wanted is noticed by the next call, so `keep` must be called
 * again and again.
 */
class Executors(session: SparkSession) {

  private val context = session.sparkContext
  private val backend = context.schedulerBackend match {
    case found: CoarseGrainedSchedulerBackend => found
    case other => throw new IllegalArgumentException(s"there are no executors in ${other.getClass.getName}")
  }
  private val placement = new Placement(session)
  private var requested = -1
  private val losses = new Losses
  context.addSparkListener(losses)

  /** Moves the number of executors toward `wanted`, and gives each its share of the state. Returns the number that stays. */
  def keep(wanted: Int): Int = synchronized {
    if (wanted != requested) {
      context.requestTotalExecutors(wanted, 0, Map.empty)
      LocalWorkers.atLeast(context, wanted)
      requested = wanted
    }
    // The youngest leave: they have had the least time to gather state.
    val (stay, go) = backend.getExecutorIds().filter(backend.isExecutorActive).sortBy(_.toLong).splitAt(wanted)
    if (go.nonEmpty) {
      val why = ExecutorDecommissionInfo(s"$wanted executors are wanted")
      backend.decommissionExecutors(go.map(_ -> why).toArray, adjustTargetNumExecutors = false, triggeredByExecutor = false)
    }
    placement.balance(stay.toSet)
    stay.size
  }

  /** The number of lost executors, without those that were decommissioned. */
  def lost(): Int = losses.count

  /** Spark's reason for the last loss; empty if there was none. */
  def lastLoss(): String = losses.last

  /** The number of state partitions of each executor, by its id. */
  def statePartitions(): JMap[String, Int] = placement.counts().asJava
}

/** Executors that ended without a request. */
private final class Losses extends SparkListener {
  @volatile var count = 0
  @volatile var last = ""
  private val ended = mutable.Queue.empty[String]

  // Spark may report an end twice: first that an executor was asked to leave, then that its process has ended.
  override def onExecutorRemoved(event: SparkListenerExecutorRemoved): Unit = if (!ended.contains(event.executorId)) {
    ended += event.executorId
    if (ended.size > Losses.Remembered) ended.dequeue()
    if (!event.reason.contains("decommission")) {
      last = event.reason
      count += 1
    }
  }
}

private object Losses {
  /** An upper bound on the executors that were asked to leave and are still there. */
  val Remembered = 1000
}
