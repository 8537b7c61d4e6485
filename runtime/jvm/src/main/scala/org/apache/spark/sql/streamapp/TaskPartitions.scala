// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.{NarrowDependency, Partition, SparkContext, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.{ExecutorCacheTaskLocation, TaskSchedulerImpl}
import org.apache.spark.sql.catalyst.InternalRow

/** The output of a partition of the state, or of the source. */
private[streamapp] final class PartitionOutput(val partition: Int, val rows: Iterator[InternalRow])

/**
 * The state partitions of each task of an epoch. In a large epoch each is a task of its own, on any processor that is free. In a small one those
 * whose stores one executor has are one task, in one transaction: a task and a transaction cost driver, executor and brokers more than the work
 * on some hundred records.
 *
 * A partition that an executor did not have in the epoch before is a task of its own: stores are restored side by side.
 */
private[streamapp] final class TaskPartitions(rows: RDD[InternalRow], @transient private val tasks: Array[PartitionsOfTask])
  extends RDD[PartitionOutput](rows.context, Seq(new PartitionsInTasks(rows, tasks.map(_.partitions.map(_.index).toSeq)))) {

  override protected def getPartitions: Array[Partition] = tasks.asInstanceOf[Array[Partition]]
  override def getPreferredLocations(task: Partition): Seq[String] = task.asInstanceOf[PartitionsOfTask].place.toSeq

  override def compute(split: Partition, task: TaskContext): Iterator[PartitionOutput] = {
    val partitions = split.asInstanceOf[PartitionsOfTask].partitions
    TaskPartitions.begin(task, partitions.head.index)
    // All stores are opened before the first row: a store that must be restored fences, which it must not do within a transaction.
    partitions.map(partition => new PartitionOutput(partition.index, firstParent[InternalRow].iterator(partition, task))).iterator
  }
}

/** The partitions of each task. Executors know them from the task alone: with all others they would get the rows of all others. */
private final class PartitionsInTasks(rows: RDD[InternalRow], @transient private val partitions: Array[Seq[Int]])
  extends NarrowDependency[InternalRow](rows) {
  override def getParents(task: Int): Seq[Int] = partitions(task)
}

/**
 * @param partitions in their order
 * @param place where Spark should run the task; none where that is known of the partition alone
 */
private[streamapp] final class PartitionsOfTask(override val index: Int, val partitions: Array[Partition], val place: Option[String])
  extends Partition

private[streamapp] object TaskPartitions {
  /** The first partition of each running task. */
  private val firstOfTask = new ConcurrentHashMap[TaskContext, Integer]()

  /**
   * Gives the partitions to tasks.
   *
   * @param executors the executor of each partition in the epoch before, where tasks may have several partitions
   */
  def of(rows: RDD[InternalRow], executors: Map[Int, String]): TaskPartitions = {
    // Those of one place are together, and each without a place is alone.
    val tasks = rows.partitions.groupBy(partition =>
      executors.get(partition.index).flatMap(kept(rows, partition, _)).toRight(partition.index))
    new TaskPartitions(rows, tasks.toArray.sortBy { case (_, partitions) => partitions.head.index }.zipWithIndex.map {
      case ((place, partitions), index) => new PartitionsOfTask(index, partitions, place.toOption)
    })
  }

  /** The place of a partition's stores, if that is this executor, and it lives. */
  private def kept(rows: RDD[InternalRow], partition: Partition, executor: String): Option[String] =
    rows.context.getPreferredLocs(rows, partition.index).collectFirst {
      case place @ ExecutorCacheTaskLocation(_, `executor`) if isAlive(rows.context, executor) => place.toString
    }

  private def isAlive(context: SparkContext, executor: String): Boolean = context.taskScheduler match {
    case scheduler: TaskSchedulerImpl => scheduler.isExecutorAlive(executor)
    case _ => false
  }

  /** Begins a task. */
  def begin(task: TaskContext, firstPartition: Int): Unit = {
    firstOfTask.put(task, firstPartition)
    task.addTaskCompletionListener[Unit](_ => firstOfTask.remove(task))
  }

  /** The first partition of the task that has this one. */
  def firstWith(partition: Int): Int =
    Option(TaskContext.get()).flatMap(task => Option(firstOfTask.get(task))).map(_.intValue).getOrElse(partition)
}
