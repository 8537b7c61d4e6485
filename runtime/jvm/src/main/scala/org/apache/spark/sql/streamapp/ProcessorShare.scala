// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.concurrent.{ConcurrentHashMap, Semaphore}

import org.apache.spark.{SparkContext, SparkEnv, TaskContext}

/**
 * Limits how many tasks compute at a time. Spark gets several slots for each processor, because tasks of small epochs mostly
 * wait for Kafka. Tasks of large epochs mostly compute: more of them than there are processors only take each other's
 * caches and memory, so here the surplus waits at its start.
 *
 * A task has its turn until it ends, whatever ends it, and waits for nothing that a task without a turn holds.
 */
object ProcessorShare {
  private val Large = "streamapp.largeEpoch"
  private lazy val turns = new Semaphore(processors, true)
  private val holders = ConcurrentHashMap.newKeySet[java.lang.Long]()

  /** The number of processors. A pod has those that it asks for; Java would count all of the machine's. */
  private def processors: Int = SparkEnv.get.conf.getInt(RuntimeConf.Prefix + "processors", Runtime.getRuntime.availableProcessors)

  /** On the driver: declares that jobs that this thread starts from now on belong to a large epoch, or to a small one. */
  def declare(context: SparkContext, large: Boolean): Unit =
    context.setLocalProperty(Large, if (large) "true" else null)

  /** In a task: waits until it may compute. Returns at once where it has its turn already, or the epoch is a small one. */
  def await(): Unit = {
    val task = TaskContext.get()
    if (task != null && task.getLocalProperty(Large) == "true" && holders.add(task.taskAttemptId())) {
      try turns.acquire()
      catch {
        case error: InterruptedException =>
          holders.remove(task.taskAttemptId())
          throw error
      }
      task.addTaskCompletionListener[Unit] { _ =>
        holders.remove(task.taskAttemptId())
        turns.release()
      }
    }
  }
}
