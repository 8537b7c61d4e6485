// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.util.ArrayDeque

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, SupportsNonDeterministicExpression, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.execution.{ProjectExec, SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.execution.exchange.{REPARTITION_BY_NUM, ShuffleExchangeExec}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.LongType

/**
 * All stateful nodes of a sub-topology, which have one key, as one operator: for each state partition a task runs their graph over
 * the rows of its keys, in an order that does not depend on how they came.
 *
 * @param keys  how many of the child's columns decide the state partition; they are the first
 * @param order how many columns behind those order the rows of an epoch; then come the graph's inputs
 * @param nowAt the column with the stream time of a row's partition
 * @param clock the current time: Spark replaces it by the epoch's
 * @param output a column for each exit; last, where that is asked for, the stream time of the row that the output row is made of
 */
final case class KeyedTask(keys: Int, order: Int, nowAt: Int, graph: TaskGraph, clock: Expression, output: Seq[Attribute], child: LogicalPlan)
  extends UnaryNode with SupportsNonDeterministicExpression {
  // Spark takes the epoch's time for a nondeterministic expression.
  override def allowNonDeterministicExpression: Boolean = true
  // The inputs are whole, whichever of their columns are used.
  @transient override lazy val references: AttributeSet = child.outputSet
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def withNewChildInternal(newChild: LogicalPlan): KeyedTask = copy(child = newChild)
}

/** Plans [[KeyedTask]] with a shuffle by the key. */
object KeyedTaskStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case KeyedTask(keys, order, nowAt, graph, clock, output, child) =>
      // Spark's `=` takes 0.0 and -0.0 as equal, and so must a hash of them.
      val by = child.output.take(keys).map(NormalizeFloatingNumbers.normalize)
      // The rows that one record was made into stay in their order: they come from one map task.
      val numbered = ProjectExec(child.output :+ Alias(MonotonicallyIncreasingID(), "__number")(), planLater(child))
      val rows = ShuffleExchangeExec(HashPartitioning(by, SQLConf.get.numShufflePartitions), numbered, REPARTITION_BY_NUM)
      Seq(KeyedTaskExec(keys, order, nowAt, graph, clock.eval().asInstanceOf[Long], output, rows))
    case _ => Nil
  }
}

/** @param epochTime the time of the epoch, in microseconds */
case class KeyedTaskExec(keys: Int, order: Int, nowAt: Int, graph: TaskGraph, epochTime: Long, output: Seq[Attribute], child: SparkPlan)
  extends UnaryExecNode with KeyedOperator {
  override def producedAttributes: AttributeSet = AttributeSet(output)

  override def requiredChildOrdering: Seq[Seq[SortOrder]] =
    Seq((child.output.slice(keys, keys + order) :+ child.output.last).map(SortOrder(_, Ascending)))

  override protected def doExecute(): RDD[InternalRow] = {
    val times = TaskClosing.of(this, getStateInfo, graph.lasting)
    val definition = OncePerRun.send(session.sparkContext, getStateInfo, "task") {
      val stores = graph.stores.map { store =>
        store.name -> StoreForm(graph.sparkName(store), store.keySchema, store.valueSchema, store.encoding, store.hasFamilies)
      }
      TaskDefinition(nowAt, stores, Packed(TaskWork(graph, output)))
    }
    new KeyedTaskRDD(child.execute(), this, getStateInfo, definition, epochTime, times)
  }

  override protected def withNewChildInternal(newChild: SparkPlan): KeyedTaskExec = copy(child = newChild)
}

/**
 * The part of a [[KeyedTaskExec]] that is the same in all epochs.
 *
 * @param stores by their names in the manifest
 */
private[keyed] final case class TaskDefinition(nowAt: Int, stores: Seq[(String, StoreForm)], work: Packed[TaskWork])

private[keyed] final case class TaskWork(graph: TaskGraph, output: Seq[Attribute])

/** The work on each state partition: opens its stores at the epoch's version, and commits them when all rows have gone through. */
private[keyed] final class KeyedTaskRDD(rows: RDD[InternalRow], @transient operator: KeyedTaskExec, state: StatefulOperatorStateInfo,
    definition: Broadcast[TaskDefinition], epochTime: Long, times: TaskClosing) extends StatePartitionsRDD(rows, operator, state) {

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val TaskDefinition(nowAt, forms, work) = definition.value
    val stores = forms.map { case (name, form) => name -> open(form, split.index, context) }
    context.addTaskCompletionListener[Unit](_ => EpochNow.end())
    // The task may fail after the processors are through with it.
    context.addTaskFailureListener((_, _) => TasksAtWork.drop(state, split.index))
    new Iterator[InternalRow] {
      // Nobody asks for a row when the epoch is done already.
      private lazy val input = firstParent[InternalRow].iterator(split, context)
      private lazy val task = TasksAtWork.take(state, split.index, new TaskAtWork(work.open())).begin(stores.toMap, times.before)
      private lazy val closing = times.ask()
      private var forgotten = 0
      private var ended = false

      override def hasNext: Boolean = {
        while (task.left.isEmpty && !ended) {
          EpochNow.begin(epochTime)
          if (task.isLettingGo) task.letGo()
          else if (input.hasNext) {
            val row = input.next()
            task.take(row, row.getLong(nowAt))
          }
          else if (task.holds) task.letAllGo()
          else if (forgotten < task.forgetting.length) {
            task.forget(forgotten, closing, times.fresh)
            forgotten += 1
          } else {
            times.due.add(task.due)
            stores.foreach(_._2.commit())
            TasksAtWork.giveBack(state, split.index, task)
            ended = true
          }
        }
        !task.left.isEmpty
      }

      override def next(): InternalRow = {
        if (!hasNext) throw new NoSuchElementException
        task.left.poll()
      }
    }
  }
}

/** The processors of the tasks. Those of a task that has failed are not given back. */
private[keyed] object TasksAtWork extends KeptWork[TaskAtWork]

/** The processors of one task. */
private[keyed] final class TaskAtWork(work: TaskWork) extends Work {
  val TaskWork(graph, output) = work

  /** Rows on their way out. */
  val left = new ArrayDeque[InternalRow]()
  /** The number of the row or change that goes through the processors: a row from outside, or a change that one of them has held. */
  var change = 0L
  /** The time of the partition that the row under way was read from, in microseconds; after all rows, the time of all partitions. */
  var now: Long = StreamTimes.Unknown
  /** The processor that must send what it holds before the next row is taken; null for none. */
  private var sending: Processor = _
  private var closed: Long = StreamTimes.Unknown
  // Whether a row that leaves is made of the row under way. A row that was held back, or that expires, has no partition's time.
  private var isOfRow = false

  private val resultOf = UnsafeProjection.create(output.map(_.dataType).toArray)
  private val result = new GenericInternalRow(output.length)
  private val timeAt = output.indexWhere(_.dataType == LongType)
  private var stores = Map.empty[String, StateStore]
  private val processors = new Array[Processor](graph.nodes.length)
  graph.nodes.zipWithIndex.foreach { case (node, place) =>
    processors(place) = node.open(this)
    node.inputs.zipWithIndex.foreach { case (input, number) => processors(input).readBy(processors(place).port(number)) }
  }
  private val entries = processors.collect { case entry: EntryProcessor => entry }
  /** The processors whose state expires, in the order in which they forget it: each behind those that it reads. */
  val forgetting: Seq[Processor] = {
    // A processor that forgets nothing has no part in the order.
    val stages = graph.alongInputs[Int] { (place, before) =>
      (before :+ (if (processors(place).forgets) processors(place).stage else TaskAtWork.Records)).max
    }
    processors.indices.filter(processors(_).forgets).sortBy(place => (stages(place), place)).map(processors(_))
  }
  private val holding = processors.filter(_.gathers)

  /** Begins an epoch, with the stores at its version, and windows up to `closed` closed. */
  def begin(stores: Map[String, StateStore], closed: Long): TaskAtWork = {
    this.stores = stores
    this.closed = closed
    now = StreamTimes.Unknown
    processors.foreach(_.begin())
    this
  }

  /** Ends the epoch: its stores must not be used any more. */
  override def end(): Unit = {
    processors.foreach(_.end())
    stores = Map.empty
  }

  def processor(place: Int): Processor = processors(place)
  def store(name: String): StateStore = stores(name)

  def take(row: InternalRow, now: Long): Unit = {
    change += 1
    this.now = now
    isOfRow = true
    var entry = 0
    while (entry < entries.length && !entries(entry).take(row)) entry += 1
    if (entry == entries.length) throw new IllegalStateException("a row belongs to none of the task's inputs")
    sending = lastFull
  }

  /** Whether a processor must send a change before the next row is taken. */
  def isLettingGo: Boolean = sending != null

  // The changes that a processor sends may fill those behind it: the ones behind send first.
  private def lastFull: Processor = {
    var place = holding.length - 1
    while (place >= 0 && !holding(place).isFull) place -= 1
    if (place < 0) null else holding(place)
  }

  /** Counts the next change that a processor sends as another one. */
  def nextChange(): Unit = change += 1

  /**
   * The time for what goes through the processors: the time of its partition. A change that was held back has no partition; its time is
   * that of all partitions before the epoch.
   *
   * @param lag how long it may have been held
   */
  def reached(lag: Long): Long = if (isOfRow) now else math.max(StreamTimes.behind(closed, lag), StreamTimes.LongAgo)

  /** Lets one of [[forgetting]] forget its expired state. The changes that it sends have gone on before the next one forgets. */
  def forget(number: Int, closing: Closing, fresh: Boolean): Unit = {
    now = closing.after
    isOfRow = false
    forgetting(number).forget(closing, fresh)
  }

  /** The next time at which state of the processors expires; Long.MaxValue for none. */
  def due: Long = forgetting.map(_.due).minOption.getOrElse(Long.MaxValue)

  def holds: Boolean = holding.exists(_.holds)

  /** All rows were read: makes the first processor that holds something send it. */
  def letAllGo(): Unit = sending = holding.find(_.holds).orNull

  /** Sends one more change. */
  def letGo(): Unit = {
    change += 1
    isOfRow = false
    val before = sending
    before.letGo()
    sending = lastFull
    if (sending == null && before.holds) sending = before
  }

  def leave(at: Int, row: InternalRow): Unit = {
    result.update(at, row)
    if (timeAt >= 0) result.update(timeAt, if (isOfRow) now else null)
    left.add(resultOf(result).copy())
    result.update(at, null)
  }
}

private[keyed] object TaskAtWork {
  /** First, records that were held back go on. */
  val Records = 0
  /** Then the rows are forgotten that those may have looked up, and changes that were held back go on. */
  val Rows = 1
  /** Last, windows close, with all that has gone on. */
  val Windows = 2
}
