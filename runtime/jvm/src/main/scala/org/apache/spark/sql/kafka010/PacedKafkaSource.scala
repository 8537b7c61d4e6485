// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import java.util.{HashMap, Map => JMap, Optional}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.metric.CustomTaskMetric
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory, Scan, ScanBuilder}
import org.apache.spark.sql.connector.read.streaming.{MicroBatchStream, Offset, ReadLimit, ReportsSourceMetrics, SupportsTriggerAvailableNow}
import org.apache.spark.sql.streamapp.{EpochPacer, EpochStyle, ProcessorShare, RuntimeConf}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Spark's Kafka source, except for three things that depend on how much there is to read. The number of records of an
 * epoch is not a constant but asked of the sub-topology's [[EpochPacer]] each time; epochs of few records are read by
 * few tasks; and the next epoch begins as soon as the interval is over AND the one before has ended.
 *
 * Options, beside the Kafka source's: `subTopology` names it; `epochIntervalMs`; `mayCombine`, whether one task may read
 * several source partitions (not where the task's transaction belongs to one of them).
 */
class PacedKafkaSourceProvider extends KafkaSourceProvider {
  override def shortName(): String = "streamapp-kafka"

  override def getTable(options: CaseInsensitiveStringMap): KafkaTable =
    new PacedTable(options.getBoolean(KafkaSourceProvider.INCLUDE_HEADERS, false))

  private class PacedTable(includeHeaders: Boolean) extends KafkaTable(includeHeaders) {
    override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () => new PacedScan(options)
  }

  private class PacedScan(options: CaseInsensitiveStringMap) extends KafkaScan(PacedKafkaSource.withCredentials(options)) {
    override def toMicroBatchStream(checkpointLocation: String): MicroBatchStream =
      new PacedStream(super.toMicroBatchStream(checkpointLocation).asInstanceOf[KafkaMicroBatchStream],
        EpochPacer.of(options.get("subTopology")), options.getLong("epochIntervalMs", 0L),
        options.getBoolean("mayCombine", false))
    override def columnarSupportMode(): Scan.ColumnarSupportMode = Scan.ColumnarSupportMode.UNSUPPORTED
  }
}

private object PacedKafkaSource {
  /** Credentials are in a file and never among the options of a query, which become part of its plan. */
  def withCredentials(options: CaseInsensitiveStringMap): CaseInsensitiveStringMap = {
    val conf = RuntimeConf(SparkSession.active.conf.getAll)
    val all = new HashMap[String, String](options.asCaseSensitiveMap)
    conf.client().forEach((key, value) => all.putIfAbsent(s"kafka.$key", value.toString))
    new CaseInsensitiveStringMap(all)
  }
}

private final class PacedStream(kafka: KafkaMicroBatchStream, pacer: EpochPacer, intervalMs: Long, mayCombine: Boolean)
    extends MicroBatchStream with SupportsTriggerAvailableNow with ReportsSourceMetrics {

  private var turnMs = 0L
  private var boundedRun = false

  override def getDefaultReadLimit: ReadLimit = ReadLimit.maxRows(pacer.limit)

  override def latestOffset(): Offset = kafka.latestOffset()

  // Spark asks for the default limit once, when the query starts: the limit of the moment is the pacer's.
  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    if (!boundedRun) awaitTurn()
    val end = kafka.latestOffset(start, ReadLimit.maxRows(pacer.limit))
    EpochStyle.choose(SparkSession.active, pacer.expect(this, records(start, end)))
    end
  }

  // Spark's own trigger starts epochs at multiples of the interval: one that takes a little longer would wait for the
  // next multiple, nearly a whole interval. A stop interrupts the wait.
  private def awaitTurn(): Unit = {
    val now = System.currentTimeMillis()
    if (turnMs + intervalMs > now && turnMs <= now) Thread.sleep(turnMs + intervalMs - now)
    turnMs = System.currentTimeMillis()
  }

  private def records(start: Offset, end: Offset): Long = (start, end) match {
    case (from: KafkaSourceOffset, until: KafkaSourceOffset) => until.partitionToOffsets.map { case (partition, offset) =>
      offset - from.partitionToOffsets.getOrElse(partition, 0L)
    }.sum
    case _ => 0L // nothing to read
  }

  override def reportLatestOffset(): Offset = kafka.reportLatestOffset()
  override def initialOffset(): Offset = kafka.initialOffset()
  override def deserializeOffset(json: String): Offset = kafka.deserializeOffset(json)
  override def prepareForTriggerAvailableNow(): Unit = {
    boundedRun = true
    kafka.prepareForTriggerAvailableNow()
  }

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = {
    val ranges = kafka.planInputPartitions(start, end).map { case range: KafkaBatchInputPartition => range }
    val records = ranges.map(size).sum
    pacer.planned(this, records)
    val tasks = math.max(1, records / RecordsPerTask).toInt
    if (!mayCombine || tasks >= ranges.length) ranges.toArray[InputPartition]
    else ranges.grouped((ranges.length + tasks - 1) / tasks).map(new KafkaRanges(_)).toArray
  }

  private def size(range: KafkaBatchInputPartition): Long = range.offsetRange.untilOffset - range.offsetRange.fromOffset

  // A task costs about as much as reading some thousand records.
  private val RecordsPerTask = 5000L

  override def createReaderFactory(): PartitionReaderFactory = KafkaRangesReaderFactory
  override def metrics(latestConsumed: Optional[Offset]): JMap[String, String] = kafka.metrics(latestConsumed)
  override def commit(end: Offset): Unit = kafka.commit(end)
  override def stop(): Unit = kafka.stop()
  override def toString: String = kafka.toString
}

/** Several Kafka ranges for one task, read one after the other. */
private final class KafkaRanges(val ranges: Array[KafkaBatchInputPartition]) extends InputPartition {
  override def preferredLocations(): Array[String] = ranges.head.preferredLocations()
}

private object KafkaRangesReaderFactory extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = {
    ProcessorShare.await()
    partition match {
      case several: KafkaRanges => new KafkaRangesReader(several.ranges)
      case one => KafkaBatchReaderFactory.createReader(one)
    }
  }
}

private final class KafkaRangesReader(ranges: Array[KafkaBatchInputPartition]) extends PartitionReader[InternalRow] {
  private val waiting = ranges.iterator
  private var reader = KafkaBatchReaderFactory.createReader(waiting.next())

  override def next(): Boolean = {
    var found = reader.next()
    while (!found && waiting.hasNext) {
      reader.close()
      reader = KafkaBatchReaderFactory.createReader(waiting.next())
      found = reader.next()
    }
    found
  }

  override def get(): InternalRow = reader.get()
  override def currentMetricsValues(): Array[CustomTaskMetric] = reader.currentMetricsValues()
  override def close(): Unit = reader.close()
}
