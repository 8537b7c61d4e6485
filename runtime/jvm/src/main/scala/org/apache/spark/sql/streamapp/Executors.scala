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
 * The executors of a running application: more or fewer of them without a restart. State goes where its tasks go, through
 * the changelogs.
 *
 * An executor that is too many is decommissioned: it gets no further task, ends those that it has, and leaves. One that
 * was asked for and comes up only after fewer were wanted is noticed by the next look, so `keep` is to be called again
 * and again.
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

  /** Brings their number closer to `wanted`, and gives each its share of the state; returns how many there are that
   * stay. */
  def keep(wanted: Int): Int = synchronized {
    if (wanted != requested) {
      context.requestTotalExecutors(wanted, 0, Map.empty)
      LocalWorkers.atLeast(context, wanted)
      requested = wanted
    }
    // The youngest go: they have had the least time to gather state.
    val (stay, go) = backend.getExecutorIds().filter(backend.isExecutorActive).sortBy(_.toLong).splitAt(wanted)
    if (go.nonEmpty) {
      val why = ExecutorDecommissionInfo(s"$wanted executors are wanted")
      backend.decommissionExecutors(go.map(_ -> why).toArray, adjustTargetNumExecutors = false, triggeredByExecutor = false)
    }
    placement.balance(stay.toSet)
    stay.size
  }

  /** How many were lost, other than by being too many. */
  def lost(): Int = losses.count

  /** How the last of those ended, in Spark's words; empty for none. */
  def lastLoss(): String = losses.last

  /** How many state partitions each executor has, by its id. */
  def statePartitions(): JMap[String, Int] = placement.counts().asJava
}

/** Executors that have ended without being asked to. */
private final class Losses extends SparkListener {
  @volatile var count = 0
  @volatile var last = ""
  private val ended = mutable.Queue.empty[String]

  // Spark may tell of an end twice: that an executor was asked to leave, and then that its process has ended.
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
  /** More executors than can have been asked to leave and still be there. */
  val Remembered = 1000
}
