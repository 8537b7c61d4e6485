// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.io.ByteArrayOutputStream
import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import org.apache.spark.{Partition, SparkContext, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.physical.{HashPartitioning, Partitioning}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.python.{EvalPythonExec, MapInBatchExec}
import org.apache.spark.sql.streamapp.{DriverTask, EpochPacer, EpochStyle, RuntimeConf}
import org.apache.spark.unsafe.Platform

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

  override protected def doExecute(): RDD[InternalRow] = rows.getOrElse(shuffle.execute())

  private def rows: Option[RDD[InternalRow]] = shuffle.outputPartitioning match {
    case hashed: HashPartitioning =>
      val read = shuffle.child.execute()
      // Spark asks the sources for the ranges of the epoch, and they count its records.
      read.partitions
      val subTopology = RuntimeConf(session.conf.getAll).subTopology
      val few = EpochPacer.of(subTopology).underWay <= DriverShuffle.MostRecords
      val found = if (few) DriverErrors.attempt(subTopology).flatMap(placed(read, hashed, subTopology, _)) else None
      // The stage counts them again.
      if (found.isEmpty) shuffle.child.resetMetrics()
      found.map(rows => new PlacedRows(sparkContext, rows.result(), output.length))
    case _ => None
  }

  private def placed(read: RDD[InternalRow], hashed: HashPartitioning, subTopology: String, attempt: Int): Option[RowsByPlace] =
    try {
      val rows = rowsByPlace(read, hashed, attempt)
      DriverErrors.none(subTopology)
      rows
    } catch {
      case NonFatal(error) =>
        logInfo(s"The driver could not read an epoch of '$subTopology'; a stage begins anew", error)
        DriverErrors.note(subTopology)
        None
    }

  /** All rows; None where they are too many bytes. */
  private def rowsByPlace(read: RDD[InternalRow], hashed: HashPartitioning, attempt: Int): Option[RowsByPlace] = {
    val placeOf = UnsafeProjection.create(hashed.partitionIdExpression :: Nil, shuffle.child.output)
    val rows = new RowsByPlace(hashed.numPartitions)
    val all = read.partitions.forall(DriverTask.run(sparkContext, read, _, attempt) { found =>
      while (found.hasNext && rows.bytes <= DriverShuffle.MostBytes) {
        if (Thread.interrupted()) throw new InterruptedException("the query was stopped")
        val row = found.next()
        rows.add(placeOf(row).getInt(0), row.asInstanceOf[UnsafeRow])
      }
      !found.hasNext
    })
    Option.when(all)(rows)
  }

  override protected def withNewChildInternal(newChild: SparkPlan): DriverShuffleExec =
    copy(shuffle = newChild.asInstanceOf[ShuffleExchangeExec])
}

private object DriverShuffle {
  /** The most records of an epoch that the driver reads, so that it is at work for some hundredths of a second. */
  val MostRecords = 2000L
  /** The most bytes of rows: they are sent with the tasks, and may be larger than their records. */
  val MostBytes: Long = 1L << 20
}

/**
 * The sub-topologies of which the driver could not read the last epoch that it tried. It would wait for Kafka in vain each time, so stages
 * read them for a while; then it tries again, with new consumers.
 */
private object DriverErrors {
  private val PauseNs = 60L * 1000 * 1000 * 1000
  private val last = new ConcurrentHashMap[String, java.lang.Long]()

  /** The number of the attempt at a sub-topology's epoch, from 0 on; None while the driver leaves it alone. */
  def attempt(subTopology: String): Option[Int] = Option(last.get(subTopology)) match {
    case Some(at) => Option.when(System.nanoTime() - at > PauseNs)(1)
    case None => Some(0)
  }

  def note(subTopology: String): Unit = last.put(subTopology, System.nanoTime())
  def none(subTopology: String): Unit = last.remove(subTopology)
}

/** Puts [[DriverShuffleExec]] in front of the keyed operators of an epoch that is expected to be small. */
object DriverShuffles extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan =
    if (EpochStyle.compiles) plan
    else plan.transformUp {
      case task: KeyedTaskExec => withDriver(task)
      case aggregate: KeyedAggregateExec => withDriver(aggregate)
    }

  private def withDriver(operator: SparkPlan): SparkPlan = operator.transformUp {
    // A function of the user's runs in executors only.
    case shuffle: ShuffleExchangeExec if !shuffle.exists(isPython) => DriverShuffleExec(shuffle)
  }

  private def isPython(plan: SparkPlan): Boolean = plan match {
    case _: EvalPythonExec | _: MapInBatchExec => true
    case _ => false
  }
}

/** Rows as bytes, by the partition that they belong to: the length of each, in eight bytes so that rows stay aligned, and the row. */
private final class RowsByPlace(places: Int) {
  private val rows = Array.fill(places)(new ByteArrayOutputStream(0))
  private val length = new Array[Byte](8)
  /** The size of all rows so far. */
  var bytes = 0L

  def add(place: Int, row: UnsafeRow): Unit = {
    val size = row.getSizeInBytes
    Platform.putLong(length, Platform.BYTE_ARRAY_OFFSET, size.toLong)
    rows(place).write(length, 0, length.length)
    rows(place).write(row.getBytes, 0, size)
    bytes += size
  }

  def result(): Array[Array[Byte]] = rows.map(_.toByteArray)
}

private final case class RowsOfPlace(index: Int, bytes: Array[Byte]) extends Partition

/** Rows that the tasks get with their descriptions. */
private final class PlacedRows(context: SparkContext, @transient private val rows: Array[Array[Byte]], columns: Int)
  extends RDD[InternalRow](context, Nil) {
  override protected def getPartitions: Array[Partition] = rows.zipWithIndex.map { case (bytes, place) => RowsOfPlace(place, bytes) }

  override def compute(split: Partition, task: TaskContext): Iterator[InternalRow] = {
    val bytes = split.asInstanceOf[RowsOfPlace].bytes
    val row = new UnsafeRow(columns)
    new Iterator[InternalRow] {
      private var at = 0
      override def hasNext: Boolean = at < bytes.length
      override def next(): InternalRow = {
        val size = Platform.getLong(bytes, Platform.BYTE_ARRAY_OFFSET + at).toInt
        row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET + at + 8, size)
        at += 8 + size
        row
      }
    }
  }
}
