// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.kafka010

import java.util.concurrent.TimeUnit.MILLISECONDS
import java.util.{HashMap, Map => JMap, Optional}

import scala.util.Using

import org.apache.hadoop.fs.Path
import org.apache.kafka.common.TopicPartition

import org.apache.spark.SparkContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReaderFactory, Scan, ScanBuilder}
import org.apache.spark.sql.connector.read.streaming.{MicroBatchStream, Offset, ReadLimit, ReportsSourceMetrics, SupportsTriggerAvailableNow}
import org.apache.spark.sql.streamapp.keyed.{DriverShuffle, EpochTimes, HopTimes, TimedSources}
import org.apache.spark.sql.streamapp.{CountedSource, EpochPacer, EpochRanges, EpochReports, EpochStyle, MetadataTopic, RuntimeConf}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/**
 * Spark's Kafka source, except for nine things. The number of records of an epoch is not a constant, but comes from the
 * sub-topology's [[EpochPacer]] each time; while more records wait than that, all sources advance together ([[Backlog]]); epochs of
 * few records are read by few tasks; the next epoch begins when [[Arrivals]] says so; [[SourceLoss]] decides about records that are
 * gone before they were read; a query that goes on with its state has an epoch at once, with records or without; where tables are
 * looked up, nothing is read before they are there ([[TableStarts]]); Kafka is asked for no more than records ([[consumer.PromptConsumer]]); and
 * what the driver reads is fetched while the epoch is planned ([[FetchAhead]]).
 *
 * Options, beside the Kafka source's: `subTopology` names it; `epochIntervalMs`; `mayCombine`, whether one task may read
 * several source partitions (not where the task's transaction belongs to one of them); `onSourceLoss`; `countedAs`, the
 * user's topics whose records these are, absent for topics of ours; `timedAs`, the tag of a source that windows wait for
 * (see `TimedSources`), `idleTimeoutMs`, for how long they wait for a partition that is silent, and `closeAtEnd`, whether a run
 * to the end closes those that are open there; `writtenBy`, the sub-topology that writes an internal topic, and `lagUs`, how much
 * later than their event time its records may be written; `goesOnAt`, the position of a source that has come back; `tables`, which is
 * `read` for a table, and `await` for a source that waits for the tables of its sub-topology; `behind`, for an internal topic with a
 * table's rows, the tables of other sub-topologies that they are made of, each as `SUBTOPOLOGY/NUMBER` of a source; `byTime`, whether the timestamps of its records
 * are their event times.
 */
class PacedKafkaSourceProvider extends KafkaSourceProvider {
  override def shortName(): String = "streamapp-kafka"

  override def getTable(options: CaseInsensitiveStringMap): KafkaTable =
    new PacedTable(options.getBoolean(KafkaSourceProvider.INCLUDE_HEADERS, false))

  private class PacedTable(includeHeaders: Boolean) extends KafkaTable(includeHeaders) {
    override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () => new PacedScan(options)
  }

  private class PacedScan(options: CaseInsensitiveStringMap) extends KafkaScan(PacedKafkaSource.withCredentials(options)) {
    override def toMicroBatchStream(checkpointLocation: String): MicroBatchStream = {
      val kafka = super.toMicroBatchStream(checkpointLocation).asInstanceOf[KafkaMicroBatchStream]
      val subTopology = options.get("subTopology")
      val conf = RuntimeConf(SparkSession.active.conf.getAll)
      EpochReports.starts(subTopology)
      // Spark asks for no offsets before it repeats an epoch that an earlier run has planned.
      MetadataTopic.find(conf.applicationId).foreach { metadata =>
        metadata.settle(EpochRanges.logOf(conf))
        EpochStyle.choose(SparkSession.active, EpochRanges.recordsUnderWay(metadata, conf))
      }
      val hop = Option(options.get("writtenBy")).map(HopWriter(conf.applicationId, _, options.get("subscribe"), options.getLong("lagUs", 0L)))
      hop.foreach(writer => HopTimes.begin(conf, writer.name, writer.topic))
      // The folder that Spark gives a source has the source's number for a name.
      val number = new Path(checkpointLocation).getName.toInt
      val idle = Option(options.get("timedAs")).map(tag => new IdlePartitions(tag, options.getLong("idleTimeoutMs", 0L),
        options.getBoolean("closeAtEnd", false), new PartitionOffsets(conf), hop))
      idle.foreach(partitions => TimedSources.add(subTopology, number, partitions.tag, () => partitions.now))
      val tables = options.get("tables")
      val behind = TableStarts.sources(options.getOrDefault("behind", ""))
      val source = TableStarts.Source(subTopology, number)
      val start = Option.when(tables == "read" || behind.nonEmpty)(
        TableStarts.add(conf, source, kafka.kafkaOffsetReader, behind, isLookedUp = tables == "read"))
      val run = SparkSession.active.sparkContext.getLocalProperty(SparkContext.SPARK_JOB_GROUP_ID)
      val arrivals = Arrivals.of(run, subTopology, options.getLong("epochIntervalMs", 0L), conf)
      new PacedStream(kafka, arrivals, Backlog.of(run, conf), SourceLoss(options.get("onSourceLoss"), kafka, subTopology), subTopology,
        options.getBoolean("mayCombine", false), Option(options.get("countedAs")), idle, start, awaitsTables = tables == "await",
        goesOnAt = Option(options.get("goesOnAt")).map(kafka.deserializeOffset), byTime = options.getBoolean("byTime", false),
        planned = () => PlannedEnds.of(conf, number), conf)
    }
    override def columnarSupportMode(): Scan.ColumnarSupportMode = Scan.ColumnarSupportMode.UNSUPPORTED
  }
}

private object PacedKafkaSource {
  /** Adds the credentials, which are in a file and never among the options of a query: those become part of its plan. */
  def withCredentials(options: CaseInsensitiveStringMap): CaseInsensitiveStringMap = {
    val conf = RuntimeConf(SparkSession.active.conf.getAll)
    val all = new HashMap[String, String](options.asCaseSensitiveMap)
    conf.client().forEach((key, value) => all.putIfAbsent(s"kafka.$key", value.toString))
    new CaseInsensitiveStringMap(all)
  }
}

private final class PacedStream(kafka: KafkaMicroBatchStream, arrivals: Arrivals, backlog: Backlog, loss: SourceLoss, subTopology: String,
    mayCombine: Boolean, override val countedAs: Option[String], idle: Option[IdlePartitions], table: Option[TableStart],
    awaitsTables: Boolean, goesOnAt: Option[Offset], byTime: Boolean, planned: () => Map[TopicPartition, Long],
    conf: RuntimeConf) extends MicroBatchStream
    with SupportsTriggerAvailableNow with ReportsSourceMetrics with CountedSource {

  private val pacer = EpochPacer.of(subTopology)
  private var boundedRun = false
  private val empty = new EmptyEpochs
  private val ahead = new FetchAhead(conf)
  backlog.join(this, () => waitsAhead)

  override def getDefaultReadLimit: ReadLimit = ReadLimit.maxRows(pacer.limit)

  override def latestOffset(): Offset = kafka.latestOffset()

  // Spark asks for the default limit once, when the query starts: the pacer has the current limit.
  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    backlog.asks(this)
    val looks = boundedRun || arrivals.isToLook(this, offsets(start))
    EpochReports.begins(subTopology)
    val most = pacer.limit
    val there = if (looks) kafka.latestOffset(start, ReadLimit.maxRows(most)) else start
    val latest = offsets(kafka.reportLatestOffset())
    if (looks) {
      table.foreach(_.goesOnAt(offsets(start), latest))
      arrivals.looked(this, offsets(start), latest)
      backlog.looked(this, Waiting(offsets(start), latest, byTime))
    }
    val tablesAreThere = TableStarts.reached(subTopology)
    val cut = if (looks && most > 0 && tablesAreThere) backlog.cut(this, most) else None
    val inStep = cut.filter(_.ends.nonEmpty).fold(there)(found => KafkaSourceOffset(offsets(there) ++ found.ends))
    val limited = if (isToWait(tablesAreThere)) start else inStep
    val reached = if (most > 0) loss.passOver(start, limited) else limited // no epoch is cut while the app drains
    backlog.reads(this, offsets(reached))
    idle.foreach(_.look(offsets(start), offsets(reached), latest, cut.fold(Set.empty[TopicPartition])(_.later), boundedRun))
    val mayBeEmpty = mayCombine && most > 0 && (!boundedRun || idle.exists(_.closeAtEnd))
    val due = mayBeEmpty && idle.isDefined && EpochTimes.isDue(subTopology)
    val end = empty.of(start, reached, first = mayBeEmpty, now = due)
    val size = records(start, end)
    if (size > 0 || due) arrivals.cut()
    EpochStyle.choose(SparkSession.active, pacer.expect(this, size))
    if (mayCombine && size > 0 && DriverShuffle.isToRead(subTopology, size)) fetchAhead(offsets(start), offsets(end)) else ahead.skip()
    end
  }

  // A new partition has no position yet. A topic that was made anew is an error, or a loss.
  private def fetchAhead(from: Map[TopicPartition, Long], until: Map[TopicPartition, Long]): Unit =
    if (from.keySet == until.keySet && until.forall { case (partition, end) => end >= from(partition) }) ahead.begin(from, until)
    else ahead.skip()

  // Rows of a table that come by an internal topic wait for the tables of topics alone.
  private def isToWait(tablesAreThere: Boolean): Boolean = {
    val unbounded = table.exists(!_.isBounded)
    if (unbounded && pacer.limit > 0) Thread.sleep(TableStarts.LookMs)
    if (table.exists(one => one.isLookedUp && !one.ofUser)) !TableStarts.userTablesReached(subTopology)
    else awaitsTables && !tablesAreThere
  }

  // The records that wait for a source that Spark has not asked yet: it goes on where the last planned epoch ends.
  private def waitsAhead: Waiting = {
    val start = offsets(goesOnAt.getOrElse(kafka.initialOffset())) ++ planned()
    Waiting(start, kafka.kafkaOffsetReader.fetchLatestOffsets(Some(start)), byTime)
  }

  private def offsets(offset: Offset): Map[TopicPartition, Long] = offset match {
    case known: KafkaSourceOffset => known.partitionToOffsets
    case _ => Map.empty
  }

  private def records(start: Offset, end: Offset): Long = (start, end) match {
    case (from: KafkaSourceOffset, until: KafkaSourceOffset) => until.partitionToOffsets.map { case (partition, offset) =>
      math.max(0L, offset - from.partitionToOffsets.getOrElse(partition, 0L))
    }.sum
    case _ => 0L // nothing to read
  }

  override def reportLatestOffset(): Offset = kafka.reportLatestOffset()
  override def initialOffset(): Offset = {
    empty.begin()
    goesOnAt.getOrElse(kafka.initialOffset())
  }
  override def deserializeOffset(json: String): Offset = {
    empty.goOn(json)
    kafka.deserializeOffset(json)
  }
  override def prepareForTriggerAvailableNow(): Unit = {
    boundedRun = true
    if (countedAs.isEmpty) awaitCommits() // all of its writers have ended
    kafka.prepareForTriggerAvailableNow()
  }

  // Kafka ends a transaction behind its answer to the commit.
  private def awaitCommits(): Unit = {
    val topic = kafka.kafkaOffsetReader
    val written = Using.resource(new PartitionOffsets(conf))(_.ends(topic.fetchEarliestOffsets().keySet))
    val giveUpNs = System.nanoTime() + MILLISECONDS.toNanos(conf.transactionTimeoutMs + PacedStream.CommitMs)
    def open = {
      val committed = topic.fetchLatestOffsets(None)
      written.keys.filter(partition => committed.getOrElse(partition, 0L) < written(partition))
    }
    var waiting = open
    while (waiting.nonEmpty) {
      if (System.nanoTime() > giveUpNs)
        throw new IllegalStateException(s"${waiting.mkString(", ")}: a transaction has been open for longer than its timeout, and " +
          "records behind it cannot be read; look for it with kafka-transactions.sh find-hanging")
      Thread.sleep(PacedStream.CommitLookMs)
      waiting = open
    }
  }

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = {
    table.foreach(_.readTo(offsets(end)))
    val gone = loss.gone(start, end)
    val read = kafka.planInputPartitions(loss.without(gone, start), end).map { case range: KafkaBatchInputPartition => range }
    val records = read.map(size).sum
    pacer.planned(this, records)
    val tasks = math.max(1, records / RecordsPerTask).toInt
    if (!mayCombine) ofEach(read, gone)
    else read.grouped(math.max(1, (read.length + tasks - 1) / tasks)).map(new KafkaRanges(_, ahead = Some(ahead))).toArray
  }

  // One task for each source partition. Where records are gone, the task accounts for them as for those that it reads.
  private def ofEach(ranges: Array[KafkaBatchInputPartition], gone: Map[TopicPartition, Gone]): Array[InputPartition] = {
    val whole = ranges.filterNot(range => gone.contains(range.offsetRange.topicPartition)).toArray[InputPartition]
    whole ++ gone.map { case (partition, lost) =>
      new KafkaRanges(ranges.filter(_.offsetRange.topicPartition == partition), Some(lost.range))
    }
  }

  private def size(range: KafkaBatchInputPartition): Long = range.offsetRange.untilOffset - range.offsetRange.fromOffset

  // A task costs about as much as reading some thousand records.
  private val RecordsPerTask = 5000L

  override def createReaderFactory(): PartitionReaderFactory = KafkaRangesReaderFactory
  override def metrics(latestConsumed: Optional[Offset]): JMap[String, String] = kafka.metrics(latestConsumed)
  override def commit(end: Offset): Unit = kafka.commit(end)
  override def stop(): Unit = {
    arrivals.leave()
    backlog.leave(this)
    idle.foreach(_.close())
    ahead.close()
    kafka.stop()
  }
  override def toString: String = kafka.toString
}

private object PacedStream {
  /** How often to look whether a transaction has ended, and how long Kafka may take with one that is over, in milliseconds. */
  val CommitLookMs = 20L
  val CommitMs = 60000L
}
