// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.{List => JList}

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._

import org.apache.spark.{Partition, SparkContext, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, BindReferences, Cast, EvalMode, Literal, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.{DataFrame, SparkSession}
import org.apache.spark.sql.execution.RDDScanExec
import org.apache.spark.sql.execution.streaming.runtime.{StreamExecution, StreamingQueryWrapper}
import org.apache.spark.sql.execution.streaming.state.{CommittedStore, CommittedView, StateStoreId, StateStoreProviderId, StorePlace}
import org.apache.spark.sql.streamapp.keyed.{StoredResults, StoredScan}
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.CollectionAccumulator

/**
 * A store of a running query as a table: the rows of its partitions at their last committed epochs.
 *
 * The rows are finished by the same operator that finishes them in each epoch; only its input is another. Reading is a
 * job of Spark's, whose tasks go to the executors that have the partitions.
 *
 * @param frame the key's columns as `__key_0`, `__key_1`, …, then those of the aggregation; reads when it is collected
 */
final class StoreReader private (val frame: DataFrame, missing: CollectionAccumulator[Integer]) {
  /** Partitions that were not where they were expected, or not new enough; to be read after the frame was read. */
  def absent: JList[Integer] = missing.value
}

object StoreReader {

  /**
   * Opens a store. Every answer covers all epochs that had ended at the call.
   *
   * @param key one text per column of the key, without a window; null for all rows
   * @return null when the query has never had an epoch: its store is empty
   * @throws IllegalArgumentException when the key does not fit
   * @throws StoreNotReadyException when the query has had no epoch since the application started
   */
  def open(session: SparkSession, applicationId: String, subTopology: String, store: String, key: JList[String]): StoreReader = {
    val query = running(session, subTopology)
    val least = query.commitLog.getLatestBatchId().map(_ + 1).getOrElse(0L)
    if (least == 0) null
    else {
      val plan = Option(query.lastExecution).map(_.executedPlan).getOrElse(throw new StoreNotReadyException(
        s"store '$store' has had no epoch since the app started; ask again after the next one"))
      val stored = StoredResults.in(plan, store, query.runId)
      val wanted = Option(key).map(texts => keyRow(stored.named, texts.asScala.toSeq))
      val info = stored.place
      val partitions = wanted.filter(_ => stored.together).map(partitionOf(stored.named, _, info.numPartitions))
        .fold[Seq[Int]](0.until(info.numPartitions))(Seq(_))
      val missing = session.sparkContext.collectionAccumulator[Integer]("absent partitions")
      session.withActive {
        val located = partitions.map { partition =>
          val id = StateStoreProviderId(info, partition, stored.sparkName)
          LocatedStore(StorePlace(applicationId, store, partition), id.storeId,
            session.streams.stateStoreCoordinator.getLocation(id))
        }
        val rows = new CommittedRows(session.sparkContext, located, least, stored.scan(wanted), missing)
        val results = stored.finish(RDDScanExec(stored.scanned, rows, "committed state"))
        new StoreReader(
          session.internalCreateDataFrame(results.execute(), DataTypeUtils.fromAttributes(results.output)), missing)
      }
    }
  }

  /**
   * Returns the first texts of a frame of one column, from as few partitions as it takes.
   *
   * Nothing larger than `bytes` is kept, here or by a task: an executor sends no more than that, and the texts of several
   * executors are dropped as soon as they are larger together.
   *
   * @throws AnswerTooLargeException when the texts are larger than `bytes`, in UTF-8
   */
  def take(frame: DataFrame, count: Int, bytes: Long): JList[String] = {
    val rows = frame.queryExecution.toRdd
    val found = ArrayBuffer.empty[String]
    var size = 0L
    var (next, step) = (0, 1)
    while (next < rows.getNumPartitions && found.size < count) {
      val some = next.until(math.min(next + step, rows.getNumPartitions))
      val (texts, more) = read(rows, some, count - found.size, bytes - size)
      if (size + more <= bytes) {
        found ++= texts
        size += more
        next += some.size
        step *= 4
      } else if (some.size > 1) step = 1 // perhaps those that are wanted are fewer
      else throw new AnswerTooLargeException(s"the answer has more than $bytes bytes")
    }
    found.take(count).asJava
  }

  /** Returns the texts of the partitions in their order, and their size; no texts when that is too large. */
  private def read(rows: RDD[InternalRow], partitions: Range, count: Int, bytes: Long): (Seq[String], Long) = {
    val found = new Array[Array[String]](partitions.size)
    var size = 0L
    rows.sparkContext.runJob(rows, StoreReader.first(count, bytes), partitions,
      (index: Int, part: (Array[String], Long)) => found.synchronized {
        size += part._2
        if (size <= bytes) found(index) = part._1 else found.indices.foreach(found(_) = null)
      })
    (if (size <= bytes) found.toSeq.flatten else Nil, size)
  }

  private def first(count: Int, bytes: Long): (TaskContext, Iterator[InternalRow]) => (Array[String], Long) = (_, rows) => {
    val found = ArrayBuffer.empty[String]
    var size = 0L
    while (found.size < count && size <= bytes && rows.hasNext) {
      val text = rows.next().getUTF8String(0)
      size += text.numBytes()
      if (size <= bytes) found += text.toString
    }
    (if (size <= bytes) found.toArray else Array.empty[String], size)
  }

  private def running(session: SparkSession, name: String): StreamExecution =
    session.streams.active.collectFirst {
      case query: StreamingQueryWrapper if query.name == name => query.streamingQuery
    }.getOrElse(throw new StoreNotReadyException(s"sub-topology '$name' does not run at the moment"))

  private def keyRow(columns: Seq[Attribute], texts: Seq[String]): UnsafeRow = {
    require(columns.size == texts.size, s"the key has ${columns.size} columns, and there are ${texts.size} values")
    val values = columns.zip(texts).map { case (column, text) =>
      val cast = Cast(Literal(UTF8String.fromString(text), StringType), column.dataType, Some("UTC"), EvalMode.TRY)
      require(cast.checkInputDataTypes().isSuccess, s"a key of type ${column.dataType.sql} cannot be looked up")
      val value = cast.eval()
      require(value != null, s"'$text' is no ${column.dataType.sql}")
      value
    }
    UnsafeProjection.create(columns.map(_.dataType).toArray)(InternalRow.fromSeq(values)).copy()
  }

  private def partitionOf(columns: Seq[Attribute], key: UnsafeRow, count: Int): Int =
    BindReferences.bindReference(HashPartitioning(columns, count).partitionIdExpression, columns)
      .eval(key).asInstanceOf[Int]
}

/** The state cannot be read yet: a later question may succeed. */
final class StoreNotReadyException(message: String) extends RuntimeException(message)

/** The answer is too large: a question for less may succeed. */
final class AnswerTooLargeException(message: String) extends RuntimeException(message)

private final case class LocatedStore(place: StorePlace, id: StateStoreId, location: Option[String])

private final case class StoreSplit(index: Int, store: LocatedStore) extends Partition

/** The rows of stores, as the operator that keeps them reads them. */
private final class CommittedRows(context: SparkContext, stores: Seq[LocatedStore], least: Long, scan: StoredScan,
    missing: CollectionAccumulator[Integer])
  extends RDD[InternalRow](context, Nil) {

  override protected def getPartitions: Array[Partition] =
    stores.zipWithIndex.map { case (store, index) => StoreSplit(index, store) }.toArray

  override protected def getPreferredLocations(split: Partition): Seq[String] =
    split.asInstanceOf[StoreSplit].store.location.toSeq

  override def compute(split: Partition, task: TaskContext): Iterator[InternalRow] = {
    val LocatedStore(place, id, _) = split.asInstanceOf[StoreSplit].store
    CommittedView.open(place, least) match {
      case None =>
        missing.add(place.partition)
        Iterator.empty
      case Some(held) =>
        val store = new CommittedStore(held, id, scan.encoding, scan.values)
        task.addTaskCompletionListener[Unit](_ => store.release())
        scan.rows(store)
    }
  }
}
