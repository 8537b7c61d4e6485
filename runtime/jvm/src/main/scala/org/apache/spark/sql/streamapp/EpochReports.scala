// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.kafka.common.TopicPartition

/** What a task reports to the driver when it has committed. */
final class TaskReport(val partition: Int, val skipped: Boolean, val records: Long, val changelogRecords: Long,
    val bytes: Long, val stores: Seq[StoreSize]) extends Serializable

/** Size of one partition of a store, as RocksDB estimates it. */
final case class StoreSize(store: String, partition: Int, rows: Long, bytes: Long)

/** Sizes of the stores that live in this process, noted by the stores and picked up by the task's report. */
object StoreStats {
  private val sizes = new ConcurrentHashMap[(String, Int, String), StoreSize]()

  def put(subTopology: String, sparkStore: String, size: StoreSize): Unit =
    sizes.put((subTopology, size.partition, sparkStore), size)

  def ofTask(conf: RuntimeConf, partition: Int): Seq[StoreSize] =
    if (conf.store.isEmpty) Nil
    else sizes.asScala.collect { case ((sub, at, _), size) if sub == conf.subTopology && at == partition => size }.toSeq
}

/**
 * Running totals per sub-topology on the driver; the driver's Python side reads them as one JSON text.
 */
object EpochReports {
  private final class Totals {
    var epoch = -1L
    var epochs = 0L
    var lastEpochMs = 0L
    var records = 0L
    var changelogRecords = 0L
    var bytes = 0L
    var skippedTasks = 0L
    var lostRecords = 0L
    val lostFrom = mutable.Map[TopicPartition, Long]()
    val stores = mutable.Map[(String, Int), StoreSize]()
  }

  private val totals = mutable.LinkedHashMap[String, Totals]()

  def clear(): Unit = synchronized(totals.clear())

  def add(subTopology: String, epoch: Long, reports: Array[TaskReport], millis: Long): Unit = synchronized {
    val total = totals.getOrElseUpdate(subTopology, new Totals)
    total.epoch = epoch
    total.epochs += 1
    total.lastEpochMs = millis
    reports.foreach { report =>
      total.records += report.records
      total.changelogRecords += report.changelogRecords
      total.bytes += report.bytes
      if (report.skipped) total.skippedTasks += 1
      report.stores.foreach(size => total.stores((size.store, size.partition)) = size)
    }
  }

  /**
   * Records that were gone before they were read, from this offset of a source partition on; a replay tells them again.
   * @return whether this was news
   */
  def lost(subTopology: String, source: TopicPartition, from: Long, records: Long): Boolean = synchronized {
    val total = totals.getOrElseUpdate(subTopology, new Totals)
    val news = !total.lostFrom.get(source).contains(from)
    if (news) {
      total.lostFrom(source) = from
      total.lostRecords += records
    }
    news
  }

  /** {"SUBTOPOLOGY": {"epoch": …, "records": …, "stores": {"NAME": {"rowsEstimate": …, "bytes": …}}}}; names need no escapes. */
  def json(): String = synchronized {
    totals.map { case (name, total) =>
      val stores = total.stores.values.groupBy(_.store).map { case (store, sizes) =>
        s""""$store":{"rowsEstimate":${sizes.map(_.rows).sum},"bytes":${sizes.map(_.bytes).sum}}"""
      }.mkString("{", ",", "}")
      s""""$name":{"epoch":${total.epoch},"epochs":${total.epochs},"lastEpochMs":${total.lastEpochMs},""" +
        s""""records":${total.records},"changelogRecords":${total.changelogRecords},"bytes":${total.bytes},""" +
        s""""skippedTasks":${total.skippedTasks},"lostRecords":${total.lostRecords},"stores":$stores}"""
    }.mkString("{", ",", "}")
  }
}
