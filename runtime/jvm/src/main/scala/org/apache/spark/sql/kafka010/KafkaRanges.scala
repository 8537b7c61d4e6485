// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory}
import org.apache.spark.sql.kafka010.consumer.{KafkaDataConsumer, PromptConsumer}
import org.apache.spark.sql.streamapp.{DriverTask, ProcessorShare}

/**
 * Kafka ranges for one task, read one after the other.
 *
 * @param accountsFor the range of one source partition that the task answers for, where it is not just the range that is read
 * @param ahead what fetches the records for the driver; no task gets it
 */
private[kafka010] final class KafkaRanges(val ranges: Array[KafkaBatchInputPartition], val accountsFor: Option[SourceRange] = None,
    @transient val ahead: Option[FetchAhead] = None) extends InputPartition {
  override def preferredLocations(): Array[String] = ranges.headOption.map(_.preferredLocations()).getOrElse(Array.empty)
}

private object KafkaRangesReaderFactory extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = {
    ProcessorShare.await()
    partition match {
      case several: KafkaRanges =>
        val ahead = if (DriverTask.isHere) several.ahead else None
        new KafkaRangesReader(several.ranges, range => ahead.flatMap(_.recordsOf(range.offsetRange)))
      case one: KafkaBatchInputPartition => new KafkaRangesReader(Array(one), _ => None)
    }
  }
}

/** @param ahead the records of a range if they are fetched already */
private final class KafkaRangesReader(ranges: Array[KafkaBatchInputPartition],
    ahead: KafkaBatchInputPartition => Option[Iterator[FetchAhead.Record]]) extends PartitionReader[InternalRow] {
  private val readers = ranges.iterator.map(range => new KafkaRangeReader(range, ahead(range).getOrElse(new FetchedByReader(range))))
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

/** Reads the records of one source partition. */
private final class KafkaRangeReader(part: KafkaBatchInputPartition, records: Iterator[FetchAhead.Record]) extends PartitionReader[InternalRow] {
  private val rowOf = new KafkaRecordToRowConverter().toUnsafeRowProjector(part.includeHeaders)
  private val isInDriver = DriverTask.isHere
  private var row: InternalRow = _

  override def next(): Boolean = {
    val found = records.hasNext
    if (found) {
      val record = records.next()
      if (isInDriver) DriverTask.reads(FetchAhead.bytesOf(record))
      row = rowOf(record)
    }
    found
  }

  override def get(): InternalRow = row
  override def close(): Unit = records match {
    case fetching: FetchedByReader => fetching.close()
    case _ =>
  }
}

/** Fetches the records of one source partition as they are read. */
private final class FetchedByReader(part: KafkaBatchInputPartition) extends Iterator[FetchAhead.Record] with AutoCloseable {
  private val KafkaOffsetRange(partition, from, until, _) = part.offsetRange
  private val consumer: KafkaDataConsumer = PromptConsumer.acquire(partition, part.executorKafkaParams, from)
  private val pollTimeoutMs = if (DriverTask.isHere) FetchAhead.MostMs else part.pollTimeoutMs
  private var offset = from
  private var coming: Option[FetchAhead.Record] = None

  override def hasNext: Boolean = {
    if (coming.isEmpty && offset < until) {
      coming = Option(consumer.get(offset, until, pollTimeoutMs, part.failOnDataLoss))
      offset = coming.fold(until)(_.offset + 1) // at the end of the range are marks of transactions
    }
    coming.isDefined
  }

  override def next(): FetchAhead.Record = {
    if (!hasNext) throw new NoSuchElementException(s"$partition has no record from $offset to $until")
    val found = coming.get
    coming = None
    found
  }

  override def close(): Unit = PromptConsumer.release(consumer, partition, part.executorKafkaParams, offset)
}
