// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.kafka010.consumer.PromptConsumer
import org.apache.spark.sql.streamapp.{DriverTask, ProcessorShare}

/**
 * Kafka ranges for one task, read one after the other.
 *
 * @param accountsFor the range of one source partition that the task answers for, where it is not just the range that is read
 */
private[kafka010] final class KafkaRanges(val ranges: Array[KafkaBatchInputPartition],
    val accountsFor: Option[SourceRange] = None) extends InputPartition {
  override def preferredLocations(): Array[String] = ranges.headOption.map(_.preferredLocations()).getOrElse(Array.empty)
}

private object KafkaRangesReaderFactory extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = {
    ProcessorShare.await()
    partition match {
      case several: KafkaRanges => new KafkaRangesReader(several.ranges)
      case one: KafkaBatchInputPartition => new KafkaRangesReader(Array(one))
    }
  }
}

private final class KafkaRangesReader(ranges: Array[KafkaBatchInputPartition]) extends PartitionReader[InternalRow] {
  private val readers = ranges.iterator.map(new KafkaRangeReader(_))
  private var reader: Option[KafkaRangeReader] = None

  override def next(): Boolean = {
    var found = reader.exists(_.next())
    while (!found && readers.hasNext) {
      close()
      reader = Some(readers.next())
      found = reader.exists(_.next())
    }
    found
  }

  override def get(): InternalRow = reader.get.get()
  override def close(): Unit = reader.foreach(_.close())
}

private object KafkaRangeReader {
  /** For how long the driver waits for records, in milliseconds. Then it leaves them to a stage, which waits longer, and can be stopped. */
  val DriverPollMs = 2000L
}

/** Reads the records of one source partition. */
private final class KafkaRangeReader(part: KafkaBatchInputPartition) extends PartitionReader[InternalRow] {
  private val KafkaOffsetRange(partition, from, until, _) = part.offsetRange
  private val consumer = PromptConsumer.acquire(partition, part.executorKafkaParams, from)
  private val rowOf = new KafkaRecordToRowConverter().toUnsafeRowProjector(part.includeHeaders)
  private val isInDriver = DriverTask.isHere
  private val pollTimeoutMs = if (isInDriver) KafkaRangeReader.DriverPollMs else part.pollTimeoutMs
  private var offset = from
  private var row: InternalRow = _

  override def next(): Boolean = {
    val record = if (offset < until) consumer.get(offset, until, pollTimeoutMs, part.failOnDataLoss) else null
    if (record != null) {
      if (isInDriver) DriverTask.reads(math.max(0, record.serializedKeySize) + math.max(0, record.serializedValueSize))
      row = rowOf(record)
      offset = record.offset + 1
    } else offset = until // at its end are marks of transactions
    record != null
  }

  override def get(): InternalRow = row
  override def close(): Unit = PromptConsumer.release(consumer, partition, part.executorKafkaParams, offset)
}
