// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.util.{ArrayDeque, UUID}
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.{Partition, TaskContext}
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
import org.apache.spark.sql.internal.{SessionState, SQLConf}
import org.apache.spark.sql.streamapp.EpochStyle
import org.apache.spark.sql.types.LongType

/**
 * All stateful nodes of a sub-topology, which are on one key, as one operator: one task per state partition runs their
 * graph over the rows of its keys, in an order that does not depend on how they came.
 *
 * @param keys  how many columns of the child, the first, decide the state partition
 * @param order how many columns behind those the rows of an epoch are in the order of; then come the graph's inputs
 * @param nowAt which column is the stream time of a row's partition
 * @param clock the current time: Spark puts the epoch's in its place
 * @param output a column for each exit; last, where that is asked for, the stream time of the row that one is made of
 */
final case class KeyedTask(keys: Int, order: Int, nowAt: Int, graph: TaskGraph, clock: Expression, output: Seq[Attribute], child: LogicalPlan)
  extends UnaryNode with SupportsNonDeterministicExpression {
  // Spark counts the epoch's time among these.
  override def allowNonDeterministicExpression: Boolean = true
  // The inputs are whole, whichever of their columns anybody uses.
  @transient override lazy val references: AttributeSet = child.outputSet
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def withNewChildInternal(newChild: LogicalPlan): KeyedTask = copy(child = newChild)
}

/** Plans [[KeyedTask]] with a shuffle by the key. */
object KeyedTaskStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case KeyedTask(keys, order, nowAt, graph, clock, output, child) =>
      // Spark's `=` takes 0.0 and -0.0 for one, and so must what hashes them.
      val by = child.output.take(keys).map(NormalizeFloatingNumbers.normalize)
      // What one record was made into stays in its order: it comes from one map task.
      val numbered = ProjectExec(child.output :+ Alias(MonotonicallyIncreasingID(), "__number")(), planLater(child))
      val rows = ShuffleExchangeExec(HashPartitioning(by, SQLConf.get.numShufflePartitions), numbered, REPARTITION_BY_NUM)
      Seq(KeyedTaskExec(keys, order, nowAt, graph, clock.eval().asInstanceOf[Long], output, rows))
    case _ => Nil
  }
}

/** @param epochTime in microseconds */
case class KeyedTaskExec(keys: Int, order: Int, nowAt: Int, graph: TaskGraph, epochTime: Long, output: Seq[Attribute], child: SparkPlan)
  extends UnaryExecNode with KeyedOperator {
  override def producedAttributes: AttributeSet = AttributeSet(output)

  override def requiredChildOrdering: Seq[Seq[SortOrder]] =
    Seq((child.output.slice(keys, keys + order) :+ child.output.last).map(SortOrder(_, Ascending)))

  override protected def doExecute(): RDD[InternalRow] = {
    val times = TaskClosing.of(this, getStateInfo, graph.lasting)
    new KeyedTaskRDD(child.execute(), nowAt, graph, epochTime, output, getStateInfo, times, session.sessionState,
      session.streams.stateStoreCoordinator)
  }

  override protected def withNewChildInternal(newChild: SparkPlan): KeyedTaskExec = copy(child = newChild)
}

/** One task per state partition: opens its stores at the epoch's version, and commits them when all rows have gone through. */
private[keyed] final class KeyedTaskRDD(rows: RDD[InternalRow], nowAt: Int, graph: TaskGraph, epochTime: Long, output: Seq[Attribute],
    state: StatefulOperatorStateInfo, times: TaskClosing, session: SessionState, @transient private val coordinator: StateStoreCoordinatorRef)
  extends BaseStateStoreRDD[InternalRow, InternalRow](rows, state.checkpointLocation, state.queryRunId, state.operatorId,
    session, Some(coordinator)) {

  override protected def getPartitions: Array[Partition] = rows.partitions

  override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] = {
    val stores = graph.stores.map(store => store.name -> open(store, split.index))
    context.addTaskCompletionListener[Unit] { _ =>
      EpochNow.end()
      stores.foreach { case (_, store) => if (!store.hasCommitted) store.abort() }
    }
    // It may fail when the processors are through with it.
    context.addTaskFailureListener((_, _) => TasksAtWork.drop(state, split.index))
    new Iterator[InternalRow] {
      // Nobody asks for a row when the epoch is done already.
      private lazy val input = firstParent[InternalRow].iterator(split, context)
      private lazy val task = TasksAtWork.take(state, split.index, new TaskAtWork(graph, output)).begin(stores.toMap, times.before)
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

  private def open(store: TaskStore, partition: Int): StateStore = {
    val id = StateStoreProviderId(state, partition, graph.sparkName(store))
    StateStore.get(id, store.keySchema, store.valueSchema, store.encoding, state.storeVersion,
      None, None, useColumnFamilies = store.hasFamilies, storeConf, hadoopConfBroadcast.value.value)
  }
}

/**
 * The processors of the partitions that this process has, from epoch to epoch: to compile their expressions takes longer than a
 * small epoch. One that has failed is not given back.
 */
private[keyed] object TasksAtWork {
  private final case class Kept(run: UUID, task: TaskAtWork)
  private val kept = new ConcurrentHashMap[(String, Int), Kept]()

  /** That of this run of the query, or a new one; what a small epoch has left is not for a large one. */
  def take(state: StatefulOperatorStateInfo, partition: Int, make: => TaskAtWork): TaskAtWork =
    Option(kept.remove((state.checkpointLocation, partition)))
      .filter(found => found.run == state.queryRunId && (found.task.isCompiled || !EpochStyle.compiles)).map(_.task).getOrElse(make)

  def giveBack(state: StatefulOperatorStateInfo, partition: Int, task: TaskAtWork): Unit = {
    task.end()
    kept.put((state.checkpointLocation, partition), Kept(state.queryRunId, task))
  }

  /** What the epoch has made of them is not to be gone on with. */
  def drop(state: StatefulOperatorStateInfo, partition: Int): Unit = kept.remove((state.checkpointLocation, partition))
}

/** The processors of one task. */
private[keyed] final class TaskAtWork(val graph: TaskGraph, output: Seq[Attribute]) {
  /** Rows on their way out. */
  val left = new ArrayDeque[InternalRow]()
  /** Numbers what goes through the processors: a row from outside, or a change that one of them has held. */
  var change = 0L
  /** How far the time of the partition had come that the row under way was read from, in microseconds; behind all rows, that of all. */
  var now: Long = StreamTimes.Unknown
  /** The processor that is to send what it holds before the next row is taken; null for none. */
  private var sending: Processor = _
  private var closed: Long = StreamTimes.Unknown
  // Whether a row that leaves is made of the row under way. What was held, or is over, has no partition's time.
  private var isOfRow = false

  /** Whether its expressions are; else they are interpreted. */
  val isCompiled: Boolean = EpochStyle.compiles

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
  /** Those that keep what time makes worthless, in the order in which they let it go: each behind those that it reads. */
  val forgetting: Seq[Processor] = {
    // One that lets nothing go has no part in it.
    val stages = graph.alongInputs[Int] { (place, before) =>
      (before :+ (if (processors(place).forgets) processors(place).stage else TaskAtWork.Records)).max
    }
    processors.indices.filter(processors(_).forgets).sortBy(place => (stages(place), place)).map(processors(_))
  }
  private val holding = processors.filter(_.gathers)

  /** An epoch begins, with the stores at its version, and what is over by `closed` closed. */
  def begin(stores: Map[String, StateStore], closed: Long): TaskAtWork = {
    this.stores = stores
    this.closed = closed
    now = StreamTimes.Unknown
    processors.foreach(_.begin())
    this
  }

  /** The epoch is over: its stores are to be used no more. */
  def end(): Unit = {
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
    if (entry == entries.length) throw new IllegalStateException("a row is of none of the task's inputs")
    sending = lastFull
  }

  /** Whether something is to go on before the next row is taken. */
  def isLettingGo: Boolean = sending != null

  // What one sends may fill those behind it: they are the first to send.
  private def lastFull: Processor = {
    var place = holding.length - 1
    while (place >= 0 && !holding(place).isFull) place -= 1
    if (place < 0) null else holding(place)
  }

  /** What a processor sends now is another change. */
  def nextChange(): Unit = change += 1

  /**
   * How far time has come for what goes through the processors: that of its partition. What was held on its way has none, and goes by
   * that of all, as far as it had come before the epoch.
   *
   * @param lag for how long it may have been held
   */
  def reached(lag: Long): Long = if (isOfRow) now else math.max(StreamTimes.behind(closed, lag), StreamTimes.LongAgo)

  /** One of those forgets what time has come for. What it lets go has gone on before the next one does. */
  def forget(number: Int, closing: Closing, fresh: Boolean): Unit = {
    now = closing.after
    isOfRow = false
    forgetting(number).forget(closing, fresh)
  }

  /** The time at which the first of what it keeps is to be forgotten; Long.MaxValue for nothing. */
  def due: Long = forgetting.map(_.due).minOption.getOrElse(Long.MaxValue)

  def holds: Boolean = holding.exists(_.holds)

  /** All rows were read: the first that holds something is to send it. */
  def letAllGo(): Unit = sending = holding.find(_.holds).orNull

  /** One change more. */
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
  /** First records that were held back go on. */
  val Records = 0
  /** Then is forgotten what they may have looked up, and changes go on that were held back. */
  val Rows = 1
  /** Last windows close, with all that has gone on. */
  val Windows = 2
}
