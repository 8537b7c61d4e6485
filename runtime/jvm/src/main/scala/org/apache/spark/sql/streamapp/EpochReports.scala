// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.kafka.common.TopicPartition
import org.json4s.DefaultFormats
import org.json4s.jackson.Serialization

import org.apache.spark.sql.execution.QueryExecution
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec
import org.apache.spark.sql.execution.streaming.StreamingQueryPlanTraverseHelper.collectFromUnfoldedPlan
import org.apache.spark.sql.streamapp.keyed.StreamTimes

/**
 * A task's report to the driver when it has committed.
 *
 * @param executor   where it ran
 * @param partitions of the state, or of the source
 * @param skipped    whether the epoch was committed already, for one of them at least
 * @param records    the records that were written; of these, `hops` went to topics of the app's own
 */
final class TaskReport(val executor: String, val partitions: Seq[Int], val skipped: Boolean, val records: Long, val hops: Long,
    val changelogRecords: Long, val bytes: Long, val stores: Seq[StoreSize]) extends Serializable

/** Size of one partition of a store, as RocksDB estimates it. */
final case class StoreSize(store: String, partition: Int, rows: Long, bytes: Long)

/** Sizes of the stores that live in this process, noted by the stores and picked up by the task's report. */
object StoreStats {
  private val sizes = new ConcurrentHashMap[(String, Int, String), StoreSize]()

  def put(subTopology: String, sparkStore: String, size: StoreSize): Unit =
    sizes.put((subTopology, size.partition, sparkStore), size)

  def ofTask(conf: RuntimeConf, partitions: Seq[Int]): Seq[StoreSize] =
    if (conf.stores.isEmpty) Nil
    else sizes.asScala.collect { case ((sub, at, _), size) if sub == conf.subTopology && partitions.contains(at) => size }.toSeq
}

/**
 * The counts of Spark's finished tasks in an epoch.
 *
 * @param read records by source, see [[CountedSource]]
 * @param late records, once for each window or join that was over for them
 * @param bad records that could not be read, by node
 */
final case class EpochCounts(read: Seq[(Option[String], Long)], late: Long, bad: Map[String, Long])

/** A source that knows the user's topics that its records count for; None where the topics are ours. */
trait CountedSource {
  def countedAs: Option[String]
}

object EpochCounts {
  /**
   * Reads the counts from the plan that was run, and not from the progress that Spark reports: Spark keeps only the last few
   * reports, and makes none of an epoch that fails.
   */
  def of(execution: QueryExecution): EpochCounts = {
    val read = collectFromUnfoldedPlan(execution.executedPlan) {
      case scan: MicroBatchScanExec => (scan.stream match {
        case source: CountedSource => source.countedAs
        case _ => None
      }) -> scan.longMetric("numOutputRows").value
    }
    // Named KIND:NODE by the visitor: a node may have several kinds of bad records.
    val (late, unreadable) = execution.observedMetrics.toSeq.partition { case (name, _) => name.startsWith("late:") }
    val bad = unreadable.groupMapReduce { case (name, _) => name.substring(name.indexOf(':') + 1) } {
      case (_, row) => row.getLong(0)
    }(_ + _)
    EpochCounts(read, late.map { case (_, row) => row.getLong(0) }.sum, bad)
  }
}

/**
 * Running totals per sub-topology on the driver; the driver's Python side reads them as one JSON text.
 *
 * Each total is of the run, and exact: a count before a shuffle is added once per epoch, as a replay does it again; a count
 * in the tasks that commit is added per task, as a replay leaves out those that have. Only a task that commits while its
 * epoch is already being given up, or on an executor that dies before its report, is missed.
 */
object EpochReports {
  private final class Totals {
    var epoch = -1L
    var epochs = 0L
    var beganNs: Option[Long] = None
    var busyNs = 0L
    var records = 0L
    var hops = 0L
    var changelogRecords = 0L
    var bytes = 0L
    var late = 0L
    var lost = 0L
    var times: Option[StreamTimes] = None
    val read = mutable.Map[Option[String], Long]().withDefaultValue(0L)
    val bad = mutable.Map[String, Long]().withDefaultValue(0L)
    val lostFrom = mutable.Map[TopicPartition, Long]()
    val stores = mutable.Map[(String, Int), StoreSize]()
  }

  private val totals = mutable.LinkedHashMap[String, Totals]()

  def clear(): Unit = synchronized(totals.clear())

  private def of(subTopology: String): Totals = totals.getOrElseUpdate(subTopology, new Totals)

  /** Ends the wait for the next epoch: the time from now on is work. */
  def begins(subTopology: String): Unit = synchronized(of(subTopology).beganNs = Some(System.nanoTime()))

  /** Starts a query: the work that an earlier one had begun is over, and the time since was no work. */
  def starts(subTopology: String): Unit = synchronized(of(subTopology).beganNs = None)

  /**
   * Adds an attempt at an epoch, which is over.
   *
   * @param reports the reports of the tasks that have committed in it
   * @param stateful whether a shuffle lies before these tasks
   * @param done whether all tasks have committed, so that the epoch has ended
   * @param startedNs when the sink got the epoch
   * @param times the event times that were reached, where windows close by them
   */
  def add(subTopology: String, epoch: Long, reports: Seq[TaskReport], counts: EpochCounts, stateful: Boolean, done: Boolean,
      startedNs: Long, times: Option[StreamTimes]): Unit = synchronized {
    val total = of(subTopology)
    total.times = times.orElse(total.times)
    val first = epoch > total.epoch
    if (!stateful || (done && first)) {
      counts.read.foreach { case (source, records) => total.read(source) += records }
      total.late += counts.late
      counts.bad.foreach { case (node, records) => total.bad(node) += records }
    }
    total.busyNs += System.nanoTime() - total.beganNs.getOrElse(startedNs)
    total.beganNs = None
    if (done && first) {
      total.epoch = epoch
      total.epochs += 1
    }
    reports.foreach { report =>
      total.records += report.records
      total.hops += report.hops
      total.changelogRecords += report.changelogRecords
      total.bytes += report.bytes
      report.stores.foreach(size => total.stores((size.store, size.partition)) = size)
    }
  }

  /**
   * Adds records that were gone before they were read, from this offset of a source partition on; a replay reports them again.
   * @return whether this was news
   */
  def lost(subTopology: String, source: TopicPartition, from: Long, records: Long): Boolean = synchronized {
    val total = of(subTopology)
    val news = !total.lostFrom.get(source).contains(from)
    if (news) {
      total.lostFrom(source) = from
      total.lost += records
    }
    news
  }

  /**
   * {"SUBTOPOLOGY": {"epoch": …, "records": …, "read": {"TOPICS": …}, "stores": {"NAME": {"rowsEstimate": …, "bytes": …}}}}.
   * `read` has the user's topics, as its source names them; `recordsIn` counts all topics.
   */
  def json(): String = synchronized {
    Serialization.write(totals.map { case (name, total) =>
      name -> Map[String, Any](
        "epoch" -> total.epoch,
        "epochs" -> total.epochs,
        "busyMs" -> total.busyNs / 1000000,
        "recordsIn" -> total.read.values.sum,
        "read" -> total.read.collect { case (Some(source), records) => source -> records }.toMap,
        "records" -> total.records,
        "hopRecords" -> total.hops,
        "changelogRecords" -> total.changelogRecords,
        "bytes" -> total.bytes,
        "lateRecords" -> total.late,
        "closedMs" -> total.times.map(_.closed).filter(_ != StreamTimes.Unknown).map(_ / 1000),
        "latestMs" -> total.times.flatMap(_.reached.values.maxOption).map(_ / 1000),
        "lostRecords" -> total.lost,
        "badRecords" -> total.bad.toMap,
        "stores" -> total.stores.values.groupBy(_.store).map { case (store, sizes) =>
          store -> Map("rowsEstimate" -> sizes.map(_.rows).sum, "bytes" -> sizes.map(_.bytes).sum)
        })
    }.toMap)(DefaultFormats)
  }
}
