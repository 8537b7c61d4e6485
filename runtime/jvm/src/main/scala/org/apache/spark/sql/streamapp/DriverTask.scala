// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.concurrent.atomic.AtomicLong

import scala.util.control.NonFatal

import org.apache.spark.{Partition, SparkContext, SparkEnv, TaskContext, TaskContextImpl}
import org.apache.spark.executor.TaskMetrics
import org.apache.spark.memory.TaskMemoryManager
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow

/** The driver gives up a task of its own, which is too large. */
final class TooMuchForDriver(message: String) extends RuntimeException(message)

/** Tasks that the driver does itself, on the thread that asks for it; no scheduler knows of them. */
object DriverTask {
  private val NoStage = -1
  // Spark's own tasks have numbers from 0 on, and -1024 stands for whoever holds a block outside of any task.
  private val lastId = new AtomicLong(Long.MinValue)
  /** The most bytes of records that such a task reads. */
  private[sql] val MostBytes = 8L << 20
  private val MostNs = 5L * 1000 * 1000 * 1000
  /** The bytes and the time that a thread at work has left. */
  private final class Budget(var bytes: Long, val endNs: Long)
  private val budget = new ThreadLocal[Budget]

  /** Whether the thread that asks is at work on such a task. */
  def isHere: Boolean = budget.get != null

  /**
   * To be called in such a task for each record that it reads.
   *
   * @throws TooMuchForDriver when it has read too many bytes, or takes too long
   */
  def reads(bytes: Long): Unit = {
    val left = budget.get
    left.bytes -= bytes
    if (Thread.interrupted()) throw new InterruptedException("the query was stopped")
    if (left.bytes < 0) throw new TooMuchForDriver(s"more than $MostBytes bytes of records")
    if (System.nanoTime() > left.endNs) throw new TooMuchForDriver(s"more than ${MostNs / 1000000000} seconds")
  }

  /**
   * Does some work with the rows of each partition, as Spark's tasks do. What accumulators count is counted at once.
   *
   * @param attempt the number of the attempt, from 0 on
   */
  def run(context: SparkContext, rows: RDD[InternalRow], attempt: Int)(work: Iterator[InternalRow] => Unit): Unit = {
    budget.set(new Budget(MostBytes, System.nanoTime() + MostNs))
    try rows.partitions.foreach(run(context, rows, _, attempt, work)) finally budget.remove()
  }

  private def run(context: SparkContext, rows: RDD[InternalRow], partition: Partition, attempt: Int, work: Iterator[InternalRow] => Unit): Unit = {
    val id = lastId.incrementAndGet()
    val memory = new TaskMemoryManager(SparkEnv.get.memoryManager, id)
    val task = new TaskContextImpl(stageId = NoStage, stageAttemptNumber = 0, partitionId = partition.index, taskAttemptId = id,
      attemptNumber = attempt, numPartitions = rows.partitions.length, taskMemoryManager = memory, localProperties = context.getLocalProperties,
      metricsSystem = SparkEnv.get.metricsSystem, taskMetrics = new TaskMetrics, cpus = 1)
    SparkEnv.get.blockManager.registerTask(id)
    TaskContext.setTaskContext(task)
    try {
      try work(rows.iterator(partition, task))
      catch {
        case error: Throwable =>
          // An error on the way out must not hide it.
          try {
            task.markTaskFailed(error)
            task.markTaskCompleted(Some(error))
          } catch { case NonFatal(other) => error.addSuppressed(other) }
          throw error
      }
      task.markTaskCompleted(None)
    } finally {
      TaskContext.unset()
      memory.cleanUpAllAllocatedMemory()
      SparkEnv.get.blockManager.releaseAllLocksForTask(id)
    }
  }
}
