// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import java.util.{Map => JMap, Optional}

import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory, Scan, ScanBuilder}
import org.apache.spark.sql.connector.read.streaming.{MicroBatchStream, Offset, ReadLimit, ReportsSourceMetrics, SupportsTriggerAvailableNow}
import org.apache.spark.sql.streamapp.EpochPacer
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Spark's Kafka source, except that the number of records of an epoch is not a constant: it is asked of the
 * sub-topology's [[EpochPacer]] each time. Option `subTopology` names it; all other options are the Kafka source's.
 */
class PacedKafkaSourceProvider extends KafkaSourceProvider {
  override def shortName(): String = "streamapp-kafka"

  override def getTable(options: CaseInsensitiveStringMap): KafkaTable =
    new PacedTable(options.getBoolean(KafkaSourceProvider.INCLUDE_HEADERS, false))

  private class PacedTable(includeHeaders: Boolean) extends KafkaTable(includeHeaders) {
    override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () => new PacedScan(options)
  }

  private class PacedScan(options: CaseInsensitiveStringMap) extends KafkaScan(options) {
    override def toMicroBatchStream(checkpointLocation: String): MicroBatchStream =
      new PacedStream(super.toMicroBatchStream(checkpointLocation).asInstanceOf[KafkaMicroBatchStream],
        EpochPacer.of(options.get("subTopology")))
    override def columnarSupportMode(): Scan.ColumnarSupportMode = Scan.ColumnarSupportMode.UNSUPPORTED
  }
}

private final class PacedStream(kafka: KafkaMicroBatchStream, pacer: EpochPacer) extends MicroBatchStream
    with SupportsTriggerAvailableNow with ReportsSourceMetrics {

  override def getDefaultReadLimit: ReadLimit = ReadLimit.maxRows(pacer.limit)

  override def latestOffset(): Offset = kafka.latestOffset()
  // Spark asks for the default limit once, when the query starts: the limit of the moment is the pacer's.
  override def latestOffset(start: Offset, limit: ReadLimit): Offset =
    kafka.latestOffset(start, ReadLimit.maxRows(pacer.limit))
  override def reportLatestOffset(): Offset = kafka.reportLatestOffset()
  override def initialOffset(): Offset = kafka.initialOffset()
  override def deserializeOffset(json: String): Offset = kafka.deserializeOffset(json)
  override def prepareForTriggerAvailableNow(): Unit = kafka.prepareForTriggerAvailableNow()
  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = {
    val partitions = kafka.planInputPartitions(start, end)
    pacer.planned(this, partitions.map {
      case range: KafkaBatchInputPartition => range.offsetRange.untilOffset - range.offsetRange.fromOffset
    }.sum)
    partitions
  }
  override def createReaderFactory(): PartitionReaderFactory = kafka.createReaderFactory()
  override def metrics(latestConsumed: Optional[Offset]): JMap[String, String] = kafka.metrics(latestConsumed)
  override def commit(end: Offset): Unit = kafka.commit(end)
  override def stop(): Unit = kafka.stop()
  override def toString: String = kafka.toString
}
