// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.TimeUnit.MILLISECONDS
import java.util.concurrent.locks.ReentrantLock

import scala.util.control.NonFatal

import org.apache.spark.{Partition, SparkContext, TaskContext}
import org.apache.spark.internal.Logging
import org.apache.spark.memory.SparkOutOfMemoryError
import org.apache.spark.rdd.RDD
import org.apache.spark.serializer.SerializerInstance
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.physical.{HashPartitioning, Partitioning}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{SortExec, SparkPlan, UnaryExecNode, UnsafeRowSerializer}
import org.apache.spark.sql.execution.exchange.{Exchange, ShuffleExchangeExec}
import org.apache.spark.sql.execution.python.{EvalPythonExec, MapInBatchExec}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator
import org.apache.spark.sql.streamapp.{DriverTask, EpochPacer, EpochStyle, RuntimeConf, TooMuchForDriver}

/**
 * The shuffle of an epoch that has few records, without the stage before it. The driver reads and computes the rows itself, and each task
 * gets its own with its description. A stage of one task costs the driver and the executors more than the work on some hundred records:
 * the task is written, sent, and read; its rows are written to files that all tasks behind the shuffle ask for.
 *
 * The rows and the tasks that they belong to are those of the shuffle. Where the driver cannot do it, because there is too much or for any
 * error, the shuffle does it from the start; an error is then reported as ever.
 */
final case class DriverShuffleExec(shuffle: ShuffleExchangeExec) extends UnaryExecNode {
  override def child: SparkPlan = shuffle
  override def output: Seq[Attribute] = shuffle.output
  override def outputPartitioning: Partitioning = shuffle.outputPartitioning

  override protected def doExecute(): RDD[InternalRow] = shuffle.outputPartitioning match {
    case hashed: HashPartitioning =>
      val read = shuffle.child.execute()
      // Spark asks the sources for the ranges of the epoch, and they count its records.
      read.partitions
      val subTopology = RuntimeConf(session.conf.getAll).subTopology
      val pacer = EpochPacer.of(subTopology)
      DriverShuffle.begins(subTopology, again = pacer.repeating)
      val few = pacer.underWay <= DriverShuffle.MostRecords
      val found = if (few) DriverShuffle.inTurn(subTopology)(rowsByPlace(read, hashed, _)) else None
      // The stage counts them again.
      if (found.isEmpty) shuffle.child.resetMetrics()
      found.fold(shuffle.execute())(rows => new PlacedRows(sparkContext, rows.result(), output.length))
    case _ => shuffle.execute()
  }

  private def rowsByPlace(read: RDD[InternalRow], hashed: HashPartitioning, attempt: Int): RowsByPlace = {
    val placeOf = UnsafeProjection.create(hashed.partitionIdExpression :: Nil, shuffle.child.output)
    val rows = new RowsByPlace(hashed.numPartitions, output.length)
    try DriverTask.run(sparkContext, read, attempt)(_.foreach { row =>
      rows.add(placeOf(row).getInt(0), row.asInstanceOf[UnsafeRow])
      if (rows.bytes > DriverShuffle.MostBytes) throw new TooMuchForDriver(s"more than ${DriverShuffle.MostBytes} bytes of rows")
    })
    finally shuffle.child.foreach {
      // A task has a copy of the plan. This is the plan itself: operators behind the shuffle send it to their tasks.
      case sort: SortExec => sort.rowSorter = null
      case _ =>
    }
    rows
  }

  override protected def withNewChildInternal(newChild: SparkPlan): DriverShuffleExec =
    copy(shuffle = newChild.asInstanceOf[ShuffleExchangeExec])
}

/**
 * The driver reads for one sub-topology at a time: it must stay free to plan epochs, and stages are spread over the executors.
 *
 * An epoch that it could not read would cost as much again each time, or wait for Kafka in vain, and one that it has read may fail because of that.
 * So stages read that sub-topology's epochs for a minute; then the driver tries again, with new consumers.
 */
object DriverShuffle extends Logging {
  /** The most records of an epoch that the driver reads. */
  private[streamapp] val MostRecords = 2000L
  /** The most bytes of rows: they are sent with the tasks, and may be larger than their records. */
  private[keyed] val MostBytes = 1L << 20
  private val PauseNs = 60L * 1000 * 1000 * 1000
  // A turn is shorter than a stage.
  private val WaitMs = 20L
  private val turn = new ReentrantLock
  /** When the driver could not read the last epoch that it tried, by sub-topology. */
  private val failures = new ConcurrentHashMap[String, java.lang.Long]()
  /** The sub-topologies whose last epoch the driver has read. */
  private val read = ConcurrentHashMap.newKeySet[String]()

  /**
   * Reads the rows of an epoch; None where a stage must do it.
   *
   * @param rows gets the number of the attempt, from 0 on
   */
  private[keyed] def inTurn(subTopology: String)(rows: Int => RowsByPlace): Option[RowsByPlace] = {
    val failed = Option(failures.get(subTopology))
    if (failed.exists(System.nanoTime() - _ < PauseNs) || !turn.tryLock(WaitMs, MILLISECONDS)) None
    else try {
      val found = rows(if (failed.isDefined) 1 else 0)
      failures.remove(subTopology)
      read.add(subTopology)
      Some(found)
    } catch {
      case error: Throwable if NonFatal(error) || error.isInstanceOf[SparkOutOfMemoryError] || error.isInstanceOf[StackOverflowError] =>
        failures.put(subTopology, System.nanoTime())
        logInfo(s"The driver could not read an epoch of '$subTopology'; a stage begins anew", error)
        None
    } finally turn.unlock()
  }

  /** Begins an epoch. If it is tried `again` and the driver has read it before, that may be why it failed. */
  private[keyed] def begins(subTopology: String, again: Boolean): Unit =
    if (read.remove(subTopology) && again) failures.put(subTopology, System.nanoTime())

  /** Whether the driver has read the epoch under way. */
  private[streamapp] def hasRead(subTopology: String): Boolean = read.contains(subTopology)

  /** Whether the driver will probably read so many records of a source. */
  def isToRead(subTopology: String, records: Long): Boolean = records <= MostRecords && canRead(subTopology)

  /** Whether the driver could read the last epoch that it tried, or has tried none. */
  private[streamapp] def canRead(subTopology: String): Boolean = !failures.containsKey(subTopology)

  /** Forgets the sub-topologies of earlier runs. */
  def clear(): Unit = {
    failures.clear()
    read.clear()
  }
}

/** Puts [[DriverShuffleExec]] in the place of the shuffle below the keyed operator of an epoch that is expected to be small. */
object DriverShuffles extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan =
    if (EpochStyle.compiles) plan
    else plan.transformUp {
      case operator @ (_: KeyedTaskExec | _: KeyedAggregateExec) => operator.withNewChildren(operator.children.map(byDriver))
    }

  private def byDriver(plan: SparkPlan): SparkPlan = plan match {
    case sort: SortExec => sort.withNewChildren(Seq(byDriver(sort.child)))
    case shuffle: ShuffleExchangeExec if !shuffle.child.exists(isForExecutors) => DriverShuffleExec(shuffle)
    case other => other
  }

  // State belongs to the tasks of its partitions, and functions of the user's run in executors.
  private def isForExecutors(plan: SparkPlan): Boolean = plan match {
    case _: StatefulOperator | _: Exchange | _: EvalPythonExec | _: MapInBatchExec => true
    case _ => false
  }
}

/** Rows by the partition that they belong to, as the shuffle would write them. */
private final class RowsByPlace(places: Int, columns: Int) {
  private val bytesOf = Array.fill(places)(new ByteArrayOutputStream(0))
  private val streams = bytesOf.map(RowsByPlace.serializer(columns).serializeStream)
  /** The size of all rows so far. */
  var bytes = 0L

  def add(place: Int, row: UnsafeRow): Unit = {
    streams(place).writeKey(place).writeValue(row)
    bytes += row.getSizeInBytes
  }

  def result(): Array[Array[Byte]] = {
    streams.foreach(_.close())
    bytesOf.map(_.toByteArray)
  }
}

private object RowsByPlace {
  def serializer(columns: Int): SerializerInstance = new UnsafeRowSerializer(columns).newInstance()
}

private final case class RowsOfPlace(index: Int, bytes: Array[Byte]) extends Partition

/** Rows that the tasks get with their descriptions. */
private final class PlacedRows(context: SparkContext, @transient private val rows: Array[Array[Byte]], columns: Int)
  extends RDD[InternalRow](context, Nil) {
  override protected def getPartitions: Array[Partition] = rows.zipWithIndex.map { case (bytes, place) => RowsOfPlace(place, bytes) }

  override def compute(split: Partition, task: TaskContext): Iterator[InternalRow] = {
    val bytes = new ByteArrayInputStream(split.asInstanceOf[RowsOfPlace].bytes)
    RowsByPlace.serializer(columns).deserializeStream(bytes).asKeyValueIterator.map { case (_, row: InternalRow @unchecked) => row }
  }
}
