// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.{Partition, SparkContext, SparkEnv, TaskContext, TaskContextImpl}
import org.apache.spark.executor.TaskMetrics
import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow

/** A task that the driver does itself, on the thread that asks for it; no scheduler knows of it. */
object DriverTask {
  private val NoStage = -1
  // Spark's own tasks have numbers from 0 on.
  private val lastId = new AtomicLong(-1000L)

  /** Whether the thread that asks is at work on such a task. */
  def isHere: Boolean = Option(TaskContext.get()).exists(_.stageId() == NoStage)

  /**
   * Does some work with the rows of one partition, as Spark's tasks do. What accumulators count is counted at once.
   *
   * @param attempt the number of the attempt, from 0 on
   */
  def run[T](context: SparkContext, rows: RDD[InternalRow], partition: Partition, attempt: Int)(work: Iterator[InternalRow] => T): T = {
    val id = lastId.decrementAndGet()
    val memory = new TaskMemoryManager(SparkEnv.get.memoryManager, id)
    val task = new TaskContextImpl(stageId = NoStage, stageAttemptNumber = 0, partitionId = partition.index, taskAttemptId = id,
      attemptNumber = attempt, numPartitions = rows.partitions.length, taskMemoryManager = memory, localProperties = context.getLocalProperties,
      metricsSystem = SparkEnv.get.metricsSystem, taskMetrics = new TaskMetrics, cpus = 1)
    TaskContext.setTaskContext(task)
    try {
      try work(rows.iterator(partition, task))
      catch {
        case error: Throwable =>
          task.markTaskFailed(error)
          throw error
      } finally task.markTaskCompleted(None)
    } finally {
      TaskContext.unset()
      memory.cleanUpAllAllocatedMemory()
    }
  }
}
