// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.streaming.state

import java.io.File
import java.util.UUID
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.{SparkContext, TaskContext}
import org.apache.spark.sql.{DataFrame, SQLContext, SparkSession}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.classic.ClassicConversions.castToImpl
import org.apache.spark.sql.connector.catalog.{SupportsRead, Table, TableCapability, TableProvider}
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read.{InputPartition, PartitionReader, PartitionReaderFactory, Scan, ScanBuilder}
import org.apache.spark.sql.connector.read.streaming.{MicroBatchStream, Offset, ReadLimit, SupportsAdmissionControl}
import org.apache.spark.sql.execution.{SparkPlan, WholeStageCodegenExec}
import org.apache.spark.sql.execution.datasources.v2.MicroBatchScanExec
import org.apache.spark.sql.execution.streaming.Sink
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperator
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.sources.StreamSinkProvider
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.types.{LongType, StringType, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap
import org.apache.spark.unsafe.types.UTF8String
import org.apache.spark.util.{LongAccumulator, SerializableConfiguration}

/**
 * Habits of Spark that the runtime relies on, and that no interface of Spark's promises: a source, a sink and stores note how they
 * are called. Nothing of the runtime is in it.
 */
object SparkHabits {
  private val notes = new ConcurrentLinkedQueue[String]()
  def note(text: String): Unit = notes.add(text)

  /** The latest offsets that the sources give, one call after the other; at the end there is nothing new. */
  @volatile var offsets: Seq[String] = Nil
  @volatile var checkpoint: File = _
  /** The number of map tasks that have read all: as the driver has it, which is in the process of its tasks here. */
  @volatile var ended: LongAccumulator = _

  def sourceProvider: String = classOf[HabitSource].getName

  /**
   * Runs a query over sources of these names until all offsets were given.
   *
   * @param aggregate an aggregate of `n`, by `word`; empty for no state
   * @return the notes
   */
  def run(session: SparkSession, folder: String, names: java.util.List[String], aggregate: String, given: java.util.List[String]): java.util.List[String] = {
    val spark = castToImpl(session)
    offsets = given.asScala.toSeq
    checkpoint = new File(folder)
    notes.clear()
    val read = names.asScala.map(spark.readStream.format(sourceProvider).name(_).load()).reduce(_ union _)
    val rows = if (aggregate.isEmpty) read else read.groupBy("word").agg(org.apache.spark.sql.functions.expr(aggregate).as("a"))
    val query = rows.writeStream.format(classOf[HabitSink].getName).option("checkpointLocation", folder)
      .outputMode(if (aggregate.isEmpty) "append" else "update").start()
    try query.processAllAvailable() finally query.stop()
    notes.asScala.toSeq.asJava
  }

  /** The names of a plan's nodes from its end to its first source. */
  def shape(plan: SparkPlan): String = Iterator.iterate(Option(plan))(_.flatMap(_.children.headOption)).takeWhile(_.isDefined)
    .flatten.map(_.nodeName).filterNot(name => name.startsWith("WholeStage") || Set("Sort", "Project", "InputAdapter")(name))
    .mkString(" ")

  /** Whether a store can be closed when it has committed, while its task goes on. */
  def stamps(session: SparkSession, folder: String): java.util.List[String] = {
    val spark = castToImpl(session)
    val schema = new StructType().add("key", LongType)
    spark.streams.stateStoreCoordinator
    val storeConf = new StateStoreConf(spark.sessionState.conf)
    val hadoop = new SerializableConfiguration(spark.sessionState.newHadoopConf())
    spark.sparkContext.runJob(spark.sparkContext.parallelize(Seq(0), 1), (_: TaskContext, _: Iterator[Int]) => {
      val provider = new HabitStores
      val conf: Configuration = hadoop.value
      conf.set("sql.streaming.runId", UUID.randomUUID().toString)
      provider.init(StateStoreId(folder, 0, 0, "default"), schema, schema,
        NoPrefixKeyStateEncoderSpec(schema), useColumnFamilies = false, storeConf, conf, useMultipleValuesPerKey = false, None)
      val row = UnsafeProjection.create(schema)(new GenericInternalRow(Array[Any](1L))).copy()
      val store = provider.getStore(0)
      store.put(row, row)
      store.commit()
      // Closing takes the stamp, and waits while somebody has it.
      @volatile var closed = false
      val closer = new Thread(() => { provider.close(); closed = true })
      closer.start()
      closer.join(30000)
      Seq(s"the task goes on, the store is closed: $closed")
    }).toSeq.flatten.asJava
  }
}

final class HabitStores extends RocksDBStateStoreProvider {
  override protected def createRocksDB(dfsRootDir: String, conf: RocksDBConf, localRootDir: File, hadoopConf: Configuration,
      loggingId: String, useColumnFamilies: Boolean, enableStateStoreCheckpointIds: Boolean, partitionId: Int,
      eventForwarder: Option[RocksDBEventForwarder], uniqueId: Option[String]): RocksDB =
    new RocksDB(dfsRootDir, conf, localRootDir, hadoopConf, loggingId, useColumnFamilies, enableStateStoreCheckpointIds,
      partitionId, eventForwarder, uniqueId) {
      override def load(version: Long, stateStoreCkptId: Option[String], readOnly: Boolean, loadEmpty: Boolean): RocksDB = {
        val task = TaskContext.get()
        SparkHabits.note(s"load version=$version partition=${task.partitionId()} announced=${task.getLocalProperty("habit.announced")} readOnly=$readOnly")
        super.load(version, stateStoreCkptId, readOnly, loadEmpty)
      }
    }
}

final class HabitSource extends TableProvider with SupportsRead {
  private val rows = new StructType().add("word", StringType).add("n", LongType)
  override def inferSchema(options: CaseInsensitiveStringMap): StructType = rows
  override def getTable(schema: StructType, partitioning: Array[Transform], properties: java.util.Map[String, String]): Table = this
  override def name(): String = "habits"
  override def schema(): StructType = rows
  override def capabilities(): java.util.Set[TableCapability] = java.util.Set.of(TableCapability.MICRO_BATCH_READ)
  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder = () => new Scan {
    override def readSchema(): StructType = rows
    override def toMicroBatchStream(checkpointLocation: String): MicroBatchStream = new HabitStream(new Path(checkpointLocation).getName)
  }
}

final case class HabitOffset(override val json: String) extends Offset

private final class HabitStream(folder: String) extends MicroBatchStream with SupportsAdmissionControl {
  import SparkHabits.note
  note(s"source=$folder made run=${castToImpl(SparkSession.active).sparkContext.getLocalProperty(SparkContext.SPARK_JOB_GROUP_ID)}")
  private val left = SparkHabits.offsets.iterator
  private var last: Offset = _

  override def getDefaultReadLimit: ReadLimit = {
    note(s"source=$folder default limit")
    ReadLimit.maxRows(7)
  }
  override def initialOffset(): Offset = {
    note(s"source=$folder initial")
    HabitOffset("0")
  }
  override def deserializeOffset(json: String): Offset = HabitOffset(json)
  override def latestOffset(): Offset = throw new UnsupportedOperationException

  override def latestOffset(start: Offset, limit: ReadLimit): Offset = {
    if (left.hasNext) {
      last = HabitOffset(left.next())
      note(s"source=$folder latest start='${start.json}' end='${last.json}'")
      val session = SparkSession.active
      session.conf.set(SQLConf.WHOLESTAGE_CODEGEN_ENABLED.key, !last.json.endsWith(" "))
      castToImpl(session).sparkContext.setLocalProperty("habit.chosen", last.json.trim)
    } else if (last == null) last = start
    last
  }

  override def planInputPartitions(start: Offset, end: Offset): Array[InputPartition] = {
    val number = end.json.trim
    note(s"source=$folder plan end='${end.json}' offsets=${new File(SparkHabits.checkpoint, "offsets").list().filterNot(_.startsWith(".")).sorted.mkString(",")}")
    Array(HabitPartition(number), HabitPartition(number))
  }
  override def createReaderFactory(): PartitionReaderFactory = {
    SparkHabits.ended = new LongAccumulator
    castToImpl(SparkSession.active).sparkContext.register(SparkHabits.ended)
    new HabitReaders(SparkHabits.ended)
  }
  override def commit(end: Offset): Unit = ()
  override def stop(): Unit = ()
}

private final case class HabitPartition(number: String) extends InputPartition

private final class HabitReaders(ended: LongAccumulator) extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] = {
    val task = TaskContext.get()
    SparkHabits.note(s"map announced=${task.getLocalProperty("habit.announced")} chosen=${task.getLocalProperty("habit.chosen")}")
    new PartitionReader[InternalRow] {
      private var read = 0
      override def next(): Boolean = {
        read += 1
        if (read == 11) ended.add(1)
        read <= 10
      }
      override def get(): InternalRow = {
        val row = new GenericInternalRow(Array[Any](UTF8String.fromString(s"word-${read % 3}"), read.toLong))
        UnsafeProjection.create(Array[org.apache.spark.sql.types.DataType](StringType, LongType))(row)
      }
      override def close(): Unit = ()
    }
  }
}

final class HabitSink extends StreamSinkProvider with Sink {
  override def createSink(context: SQLContext, options: Map[String, String], columns: Seq[String], mode: OutputMode): Sink = this

  override def addBatch(epoch: Long, data: DataFrame): Unit = {
    val execution = castToImpl(data).queryExecution
    val spark = data.sparkSession.sparkContext
    def property(name: String) = spark.getLocalProperty(name)
    def files(log: String) = Option(new File(SparkHabits.checkpoint, log).list()).toSeq.flatten.filterNot(_.startsWith(".")).sorted.mkString(",")
    SparkHabits.note(s"sink epoch=$epoch run=${property(SparkContext.SPARK_JOB_GROUP_ID)} property=${property(MicroBatchExecution.BATCH_ID_KEY)} offsets=${files("offsets")} commits=${files("commits")}")
    spark.setLocalProperty("habit.announced", epoch.toString)
    val rows = execution.toRdd
    execution.executedPlan.collect { case operator: StatefulOperator => operator.getStateInfo }.foreach { info =>
      SparkHabits.note(s"state epoch=$epoch version=${info.storeVersion} operator=${info.operatorId} partitions=${info.numPartitions} " +
        s"group=${info.queryRunId.toString == property(SparkContext.SPARK_JOB_GROUP_ID)} at=${new Path(info.checkpointLocation).getName}")
    }
    SparkHabits.note(s"plan epoch=$epoch generated=${execution.executedPlan.exists(_.isInstanceOf[WholeStageCodegenExec])} ${SparkHabits.shape(execution.executedPlan)}")
    spark.runJob(rows, (task: TaskContext, rows: Iterator[InternalRow]) => {
      SparkHabits.note(s"reduce announced=${task.getLocalProperty("habit.announced")} chosen=${task.getLocalProperty("habit.chosen")} ended=${SparkHabits.ended.value}")
      rows.foreach(_ => ())
    })
    val read = execution.executedPlan.collect { case scan: MicroBatchScanExec => scan.longMetric("numOutputRows").value.toLong }
    SparkHabits.note(s"read epoch=$epoch rows=${read.mkString(",")}")
  }
}
