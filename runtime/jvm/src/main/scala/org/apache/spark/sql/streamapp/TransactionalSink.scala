// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import scala.collection.mutable

import org.apache.kafka.clients.producer.ProducerRecord
import org.apache.kafka.common.header.Header
import org.apache.kafka.common.header.internals.RecordHeader

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{DataFrame, SQLContext}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.classic.ClassicConversions.castToImpl
import org.apache.spark.sql.execution.streaming.Sink
import org.apache.spark.sql.kafka010.SourceRanges
import org.apache.spark.sql.sources.StreamSinkProvider
import org.apache.spark.sql.streamapp.keyed.{DriverShuffle, EpochTimes, HopTimes, StreamTimes}
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.unsafe.types.UTF8String

/**
 * The sink of every sub-topology: writes rows (topic, key, value, timestamp, headers) to Kafka in the transaction of
 * their task, together with the changelogs of the task's stores or, without state, with the source position.
 *
 * Options: the settings of [[RuntimeConf]] without their prefix; `stateful` (true/false); `positionPartitions`; `timed`, whether stream
 * time is kept; `hops`, the internal topics whose readers go by it.
 */
class TransactionalSinkProvider extends StreamSinkProvider {
  override def createSink(context: SQLContext, options: Map[String, String], partitionColumns: Seq[String],
      mode: OutputMode): Sink = {
    val conf = RuntimeConf(context.sparkSession.conf.getAll)
    new TransactionalSink(conf, options("stateful").toBoolean, options.get("positionPartitions").map(_.toInt).getOrElse(1),
      options.get("timed").exists(_.toBoolean), options.getOrElse("hops", "").split(',').toSeq.filter(_.nonEmpty))
  }
}

class TransactionalSink(conf: RuntimeConf, stateful: Boolean, positionPartitions: Int, timed: Boolean, hops: Seq[String]) extends Sink {

  // One sink for each start of a query. A former run may have left the first epoch half done.
  private val queryRun = UUID.randomUUID().toString
  private var settled = false
  /** The executor of each partition in the last epoch. */
  private var executors = Map.empty[Int, String]
  private val pacer = EpochPacer.of(conf.subTopology)
  private val pace = s"/${conf.applicationId}/${conf.subTopology}/pace"
  private var noted = metadata.get(pace).flatMap(file => new String(file.bytes, UTF_8).toLongOption)
  pacer.begin(conf.transactionTimeoutMs, noted)
  // An earlier version may have kept times. They say nothing about the time after epochs without them.
  if (!timed) StreamTimes.forget(conf.applicationId, conf.subTopology)

  override def addBatch(epoch: Long, data: DataFrame): Unit = {
    val started = System.nanoTime()
    if (timed) EpochTimes.begin(conf, epoch)
    // The planned rows, not a new Dataset: planning again would read the sources and the stores a second time.
    val execution = castToImpl(data).queryExecution
    val plan = execution.executedPlan
    Failpoint.hit("epoch.planned", epoch)
    // Spark's `toRdd` sends all settings with each task, for tasks that no execution of Spark's has announced.
    val rows = plan.execute()
    // After a crash the epoch must be the one that tasks have committed. It was planned, and its records were read, during the write.
    metadata.await(EpochRanges.logOf(conf))
    EpochRanges.announce(data.sparkSession.sparkContext, conf, epoch)
    TransactionTimeout.announce(rows.sparkContext, pacer.underWay, again = pacer.repeating)
    // Tasks that have committed count, even if the epoch fails: its replay does not run them again.
    val reports = mutable.Buffer[TaskReport]()
    var done = false
    try {
      if (stateful) writeStateful(rows, epoch, reports) else writeStateless(rows, epoch, reports)
      Failpoint.hit("epoch.tasks-committed", epoch)
      if (hops.nonEmpty) {
        val wrote = reports.synchronized(reports.exists(report => report.skipped || report.hops > 0))
        HopTimes.ended(conf, hops, EpochTimes.underWay(conf).after.closed, wrote)
      }
      pacer.epochDone()
      notePace()
      done = true
    } finally {
      val committed = reports.synchronized(reports.toList)
      EpochReports.add(conf.subTopology, epoch, committed, EpochCounts.of(execution), stateful, done, started,
        if (done && timed) Some(EpochTimes.end(conf)) else None)
    }
  }

  private def metadata: MetadataTopic = MetadataTopic.current(conf.applicationId)

  // Notes the limit for slow apps alone, and there only when it has doubled or halved.
  private def notePace(): Unit = {
    val limit = pacer.worthNoting
    val same = (limit, noted) match {
      case (Some(now), Some(before)) => now * 2 > before && now < before * 2
      case (now, before) => now.isEmpty && before.isEmpty
    }
    if (!same) {
      metadata.defer(Seq(pace -> limit.map(_.toString.getBytes(UTF_8)).orNull))
      noted = limit
    }
  }

  private def writeStateful(rows: RDD[InternalRow], epoch: Long, reports: mutable.Buffer[TaskReport]): Unit = {
    val conf = this.conf
    if (!settled) {
      TransactionalIds.beginRun(rows.sparkContext, conf.subTopology)
      TransactionalIds.settle(conf, rows.partitions.map(partition => TaskTransaction.idOf(conf, partition.index)))
      settled = true
    }
    val tasks = TaskPartitions.of(rows, if (isSmall) executors else Map.empty)
    executors = Map.empty
    run(tasks, reports) { (context, outputs: Iterator[PartitionOutput]) =>
      val partitions = outputs.toSeq
      val id = TaskTransaction.idOf(conf, partitions.head.partition)
      val transaction = TaskTransaction.find(conf, id).filter(_.ownerAttempt == context.taskAttemptId()).getOrElse(
        throw new IllegalStateException(s"$id: no store was loaded by this task attempt"))
      TransactionalSink.write(conf, transaction, partitions, epoch) { partition =>
        val versions = transaction.markedVersions(partition)
        if (versions.size != conf.stores.size || versions.exists(_ != epoch + 1)) {
          throw new IllegalStateException(s"${conf.subTopology}/$partition: stores committed versions " +
            s"${versions.mkString("[", ", ", "]")} in epoch $epoch")
        }
      }
    }
    executors = reports.synchronized(reports.toList).filterNot(_.skipped).flatMap(report => report.partitions.map(_ -> report.executor)).toMap
  }

  /**
   * Whether one thread does the work of all partitions in about the time of a task. Functions of the user's may take long for a record, and when
   * windows close there may be any number of results.
   */
  private def isSmall: Boolean = {
    val sub = conf.subTopology
    def times = EpochTimes.underWay(conf)
    pacer.underWay <= DriverShuffle.MostRecords && conf.functions.isEmpty && DriverShuffle.canRead(sub) &&
      (!timed || times.hasNothingToClose || (DriverShuffle.hasRead(sub) && times.closesNothing))
  }

  private def writeStateless(rows: RDD[InternalRow], epoch: Long, reports: mutable.Buffer[TaskReport]): Unit = {
    val conf = this.conf
    val partitions = this.positionPartitions
    val ranges = SourceRanges.of(rows)
    val queryRun = this.queryRun
    val timed = this.timed
    if (!settled) {
      SourcePosition.settle(conf, ranges.map(_.source))
      settled = true
    }
    run(rows, reports) { (context, records: Iterator[InternalRow]) =>
      val range = ranges(context.partitionId())
      val position = SourcePosition.of(conf, range.source, partitions)
      val transaction = TaskTransaction.of(conf, position.transactionId)
      position.begin(transaction, epoch, range.from, range.until, queryRun)
      // No other task reads how far time had come in this partition.
      if (timed && transaction.alreadyDone(range.source.partition)) records.foreach(_ => ())
      TransactionalSink.write(conf, transaction, Seq(new PartitionOutput(range.source.partition, records)), epoch) { _ =>
        position.mark(transaction, range.until)
      }
    }
  }

  private def run[Row](rows: RDD[Row], reports: mutable.Buffer[TaskReport])(task: (TaskContext, Iterator[Row]) => TaskReport): Unit =
    rows.sparkContext.runJob(rows, new TransactionalSink.EpochTask(task), rows.partitions.indices,
      (_: Int, report: TaskReport) => reports.synchronized(reports += report))

  override def toString: String = s"StreamApp[${conf.applicationId}/${conf.subTopology}]"
}

object TransactionalSink {

  /** The work of one task in one epoch: pulls the rows, sends them, lets the stores and the position mark, and commits. */
  private[streamapp] def write(conf: RuntimeConf, transaction: TaskTransaction, partitions: Seq[PartitionOutput], epoch: Long)(
      seal: Int => Unit): TaskReport = {
    val context = TaskContext.get()
    // An interrupt cancels a task, and can end a Kafka call half way: never commit after a failure.
    context.addTaskFailureListener((_: TaskContext, _: Throwable) => transaction.abort())
    try {
      SourcePosition.tidy()
      val records = new RecordConverter(conf)
      var written = 0L
      var hops = 0L
      val (skipped, left) = partitions.partition(output => transaction.alreadyDone(output.partition))
      left.foreach { output =>
        while (output.rows.hasNext) {
          val row = output.rows.next()
          if (!row.isNullAt(0)) { // else the row is of a table that is written nowhere
            transaction.send(output.partition, records.convert(row))
            written += 1
            if (records.isHop) hops += 1
          }
        }
        Failpoint.hit("sink.rows-sent", epoch, output.partition)
        seal(output.partition)
      }
      val all = partitions.map(_.partition)
      val report = new TaskReport(RuntimePlugin.executorId, all, skipped.nonEmpty, written, hops, transaction.recordsSent - written,
        transaction.bytesSent, StoreStats.ofTask(conf, all))
      if (context.isInterrupted()) throw new InterruptedException("the task was cancelled")
      transaction.commit()
      report
    } catch {
      case error: Throwable =>
        transaction.abort()
        throw error
    }
  }

  /** Turns a row into a record. Columns: topic STRING, key BINARY, value BINARY, timestamp BIGINT (ms), headers ARRAY<STRUCT>. */
  private final class RecordConverter(conf: RuntimeConf) {
    private var topicBytes: UTF8String = _
    private var topic: String = _
    /** Whether the last record goes to a hop. */
    var isHop = false

    def convert(row: InternalRow): ProducerRecord[Array[Byte], Array[Byte]] = {
      val bytes = row.getUTF8String(0)
      if (bytes != topicBytes) { // nearly always the same topic as the row before
        topicBytes = bytes.clone()
        topic = bytes.toString
        isHop = conf.isHop(topic)
      }
      val key = if (row.isNullAt(1)) null else row.getBinary(1)
      val value = if (row.isNullAt(2)) null else row.getBinary(2)
      val timestamp: java.lang.Long = if (row.isNullAt(3)) null else math.max(row.getLong(3), 0L)
      if (row.isNullAt(4)) new ProducerRecord(topic, null, timestamp, key, value)
      else new ProducerRecord(topic, null, timestamp, key, value, headers(row))
    }

    private def headers(row: InternalRow): java.lang.Iterable[Header] = {
      val array = row.getArray(4)
      val result = new java.util.ArrayList[Header](array.numElements())
      for (i <- 0 until array.numElements()) {
        val header = array.getStruct(i, 2)
        result.add(new RecordHeader(header.getUTF8String(0).toString, if (header.isNullAt(1)) null else header.getBinary(1)))
      }
      result
    }
  }

  // Spark reads the class file of a lambda each time to find what it need not send. Here it has nothing of that kind.
  private final class EpochTask[Row](work: (TaskContext, Iterator[Row]) => TaskReport) extends ((TaskContext, Iterator[Row]) => TaskReport)
      with Serializable {
    override def apply(context: TaskContext, rows: Iterator[Row]): TaskReport = work(context, rows)
  }

  def utf8(text: String): Array[Byte] = text.getBytes(UTF_8)
}
