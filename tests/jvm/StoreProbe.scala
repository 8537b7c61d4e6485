// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.streaming.state

import java.util.UUID

import scala.jdk.CollectionConverters._

import org.apache.kafka.clients.producer.ProducerRecord

import org.apache.spark.TaskContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.classic.ClassicConversions.castToImpl
import org.apache.spark.sql.streamapp.{HeldSender, RuntimeConf, TaskTransaction, TransactionProbe}
import org.apache.spark.sql.types.{LongType, StructType}
import org.apache.spark.util.SerializableConfiguration

/**
 * Drives changelog stores inside a real Spark task, the way Spark's operators do, so that a test can do in a few
 * lines what takes a special query otherwise. A script is a list of steps separated by spaces:
 *
 *   put:STORE:KEY:N  fill:STORE:FROM:UNTIL (each key with itself)  merge:STORE:KEY:N  remove:STORE:KEY  range:STORE:FROM:TO  put-in:STORE:FAMILY:KEY:N
 *   get:STORE:KEY  scan:STORE (which read, and no more)   close-former (the stores of the run before, see `restart`)
 *   commit (stores, then the transaction)   store-commit (stores only)   fail (the task throws)
 *   succeeded (another attempt has taken the task's transaction: the one that goes on here is a zombie)
 *   close (the stores, in another thread, as Spark's maintenance does; goes on when they are closed or that thread waits)
 *   close-in-commit:TOPIC (the same, after Kafka has committed and before the stores know; a record goes to TOPIC)
 *   transaction-commit (the transaction only)
 *   hold (the producer's sender stands still until the task waits for it, see HeldSender)
 *   expect:TOPIC:PERCENT (of their size that records are compressed to)
 *   overdue (waits until Kafka has ended the task's transaction)
 *
 * STORE is a name, or NAME@PARTITION: a task may have several partitions of a store. With the setting `probe.again` the task repeats work of an
 * earlier try.
 */
object StoreProbe {
  private val keySchema = new StructType().add("key", LongType)
  private def keySpec = RangeKeyScanStateEncoderSpec(keySchema, Seq(0)) // the one that supports range deletion
  private val valueSchema = new StructType().add("n", LongType)

  private def keyRow(key: String): UnsafeRow =
    UnsafeProjection.create(keySchema)(new GenericInternalRow(Array[Any](key.toLong))).copy()
  private def valueRow(n: Long): UnsafeRow =
    UnsafeProjection.create(valueSchema)(new GenericInternalRow(Array[Any](n))).copy()

  /** A process's set of stores: kept between tasks like Spark's own, or new (as after a crash). */
  private var providers = Map.empty[String, ChangelogStateStoreProvider]

  /** Starts the query again in the same process: it has new stores, and Spark closes the old ones some time later. */
  def restart(): Unit = synchronized {
    former = providers
    providers = Map.empty
  }
  private var former = Map.empty[String, ChangelogStateStoreProvider]

  /** Goes on with the stores of the run before, as another process does that has them still. */
  def swap(): Unit = synchronized {
    val now = providers
    providers = former
    former = now
  }

  /** Moves the partitions to another process. */
  def leave(): Unit = synchronized {
    providers.values.foreach(_.close())
    providers = Map.empty
  }

  /** Deletes all that is local. */
  def forget(applicationId: String): Unit = {
    leave()
    LocalBases.closeAll(applicationId)
  }

  /** The bytes that the producer of the part's first task keeps (see HeldSender). */
  def keptBytes(settings: java.util.Map[String, String]): Long = {
    val conf = RuntimeConf(settings.asScala.toMap)
    HeldSender.keptBytes(TaskTransaction.find(conf, s"${conf.subTopology}/0").get)
  }

  /** The number of local bases so many hours later. */
  def basesAfter(hours: Int): Int = {
    LocalBases.tidy(System.currentTimeMillis() + hours * 3600L * 1000)
    LocalBases.count
  }

  /** Whether a new base is due. See LocalBase. */
  def baseDue(changes: Long, rows: Long, most: Long, ageHours: Int): Boolean =
    LocalBase.due(changes, rows, most, Some(ageHours * 3600L * 1000))

  private def provider(store: String, settings: Map[String, String],
      hadoop: SerializableConfiguration, storeConf: StateStoreConf): ChangelogStateStoreProvider = synchronized {
    providers.getOrElse(store, {
      val created = new ChangelogStateStoreProvider
      val conf = hadoop.value
      settings.foreach { case (key, value) => conf.set(key, value) }
      conf.set(StreamingRunId, UUID.randomUUID().toString)
      // A store without column families is one that can be asked.
      val plain = settings.contains("probe.plain")
      created.init(StateStoreId("/probe", 0, partitionOf(store), store.takeWhile(_ != '@')), keySchema, valueSchema,
        if (plain) NoPrefixKeyStateEncoderSpec(keySchema) else keySpec,
        useColumnFamilies = !plain, storeConf, conf, useMultipleValuesPerKey = !plain, None)
      providers += store -> created
      created
    })
  }

  private def partitionOf(store: String): Int = if (store.contains('@')) store.substring(store.indexOf('@') + 1).toInt else 0

  private val StreamingRunId = "sql.streaming.runId"

  /** Runs the script as one task at `version` and returns every row as "STORE/FAMILY/KEY=N,N", sorted. */
  def run(session: SparkSession, settings: java.util.Map[String, String], stores: java.util.List[String], version: Long,
      script: String): java.util.List[String] = {
    val spark = castToImpl(session)
    val conf = settings.asScala.toMap
    val names = stores.asScala.toSeq
    spark.streams.stateStoreCoordinator // started with the first query otherwise; stores report to it
    val storeConf = new StateStoreConf(spark.sessionState.conf)
    val hadoop = new SerializableConfiguration(spark.sessionState.newHadoopConf())
    TransactionProbe.announce(spark.sparkContext, again = conf.contains("probe.again"))
    val rows = spark.sparkContext.runJob(spark.sparkContext.parallelize(Seq(0), 1), (_: TaskContext, _: Iterator[Int]) => {
      val runtime = RuntimeConf(conf)
      TransactionProbe.beginTask(firstPartition = 0)
      val opened = names.map(name => name -> provider(name, conf, hadoop, storeConf).getStore(version)).toMap
      val transaction = TaskTransaction.find(runtime, s"${runtime.subTopology}/0").get
      var committed = false
      val skipped = names.map(partitionOf).forall(transaction.alreadyDone)
      try {
        if (skipped) transaction.commit()
        else script.split(' ').filter(_.nonEmpty).map(_.split(':')).foreach {
          case Array("put", s, k, n) => opened(s).put(keyRow(k), valueRow(n.toLong))
          case Array("fill", s, from, until) =>
            val (key, value) = (UnsafeProjection.create(keySchema), UnsafeProjection.create(valueSchema))
            for (k <- from.toLong until until.toLong) {
              val number = new GenericInternalRow(Array[Any](k))
              opened(s).put(key(number), value(number))
            }
          case Array("merge", s, k, n) => opened(s).merge(keyRow(k), valueRow(n.toLong))
          case Array("remove", s, k) => opened(s).remove(keyRow(k))
          case Array("range", s, from, to) => opened(s).deleteRange(keyRow(from), keyRow(to), StateStore.DEFAULT_COL_FAMILY_NAME)
          case Array("put-in", s, family, k, n) =>
            opened(s).createColFamilyIfAbsent(family, keySchema, valueSchema, keySpec,
              useMultipleValuesPerKey = true)
            opened(s).put(keyRow(k), valueRow(n.toLong), family)
          case Array("get", s, k) => opened(s).get(keyRow(k), StateStore.DEFAULT_COL_FAMILY_NAME)
          case Array("scan", s) => opened(s).iterator().foreach(_ => ())
          case Array("succeeded") => asAnotherAttempt {
            transaction.begin(version, (_: Long, _: Long) => ())
            transaction.fence()
          }
          case Array("hold") => HeldSender.hold(transaction)
          case Array("expect", topic, percent) => HeldSender.expectCompression(topic, percent.toInt / 100f)
          case Array("close-former") => former.values.foreach(_.close())
          case Array("close") => closeElsewhere()
          case Array("close-in-commit", topic) => transaction.mark(0, (_: Long, _: Long) => closeElsewhere(), version + 1,
            new ProducerRecord(topic, 0, Array[Byte](1), Array[Byte](1)))
          case Array("transaction-commit") => committed = true; transaction.commit()
          case Array("store-commit") => opened.values.foreach(_.commit()); committed = true
          case Array("commit") => opened.values.foreach(_.commit()); committed = true; transaction.commit()
          case Array("overdue") => TransactionProbe.awaitEnd(runtime, transaction.id)
          case Array("fail") => throw new IllegalStateException("the script says fail")
          case Array("dump") =>
          case other => throw new IllegalArgumentException(other.mkString(":"))
        }
        val before = if (committed || skipped) Seq.empty[String] else dump(opened, conf.contains("probe.plain"))
        if (!committed) opened.values.foreach(_.abort())
        before
      } catch {
        case error: Throwable =>
          if (!committed) opened.values.foreach(_.abort())
          transaction.abort()
          throw error
      }
    })
    rows.toSeq.flatten.sorted.asJava
  }

  private def closeElsewhere(): Unit = {
    val leaving = providers.values.toList
    providers = Map.empty
    val thread = new Thread(() => leaving.foreach(_.close()), "closes stores")
    thread.setDaemon(true)
    thread.start()
    while (thread.isAlive && thread.getState != Thread.State.BLOCKED) Thread.onSpinWait()
  }

  private def asAnotherAttempt(work: => Unit): Unit = {
    val here = TaskContext.get()
    TaskContext.setTaskContext(TaskContext.empty())
    try work finally TaskContext.setTaskContext(here)
  }

  private def dump(stores: Map[String, StateStore], plain: Boolean): Seq[String] = stores.toSeq.flatMap { case (name, store) =>
    if (!plain) dumpFamilies(name, store)
    else store.iterator().map(pair => s"$name/default/${pair.key.getLong(0)}=${pair.value.getLong(0)}").toList
  }

  private def dumpFamilies(name: String, store: StateStore): Seq[String] = {
    val families = store.asInstanceOf[RocksDBStateStoreProvider#RocksDBStateStore].allColumnFamilyNames
    families.toSeq.flatMap { family =>
      if (family != StateStore.DEFAULT_COL_FAMILY_NAME)
        store.createColFamilyIfAbsent(family, keySchema, valueSchema, keySpec, useMultipleValuesPerKey = true)
      store.iterator(family).map(_.key.copy()).toList.map { key =>
        val values = store.valuesIterator(key, family).map(_.getLong(0)).toList
        s"$name/$family/${key.getLong(0)}=${values.mkString(",")}"
      }
    }
  }
}
