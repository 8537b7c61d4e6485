// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.streaming.state

import java.io.File

import org.apache.hadoop.conf.Configuration
import org.apache.kafka.common.TopicPartition
import org.rocksdb.{RocksDB => NativeRocksDB, TickerType}

import org.apache.spark.TaskContext
import org.apache.spark.sql.streamapp.{ProcessorShare, RuntimeConf, SparkInternals, StoreSize, StoreStats}
import org.apache.spark.util.NextIterator

/**
 * Spark's RocksDB state store whose only durable form is a compacted Kafka topic.
 *
 * Everything above the file layer is Spark's: encoders, column families, iterators, metrics. Below it, instead of
 * uploading files, each change is sent to the changelog topic inside the transaction of the task
 * ([[org.apache.spark.sql.streamapp.TaskTransaction]]), and a store that is not here is rebuilt from that topic.
 * Pinned to Spark 4.2: a test fails when the seams used here move.
 */
class ChangelogStateStoreProvider extends RocksDBStateStoreProvider {
  override protected def createRocksDB(dfsRootDir: String, conf: RocksDBConf, localRootDir: File,
      hadoopConf: Configuration, loggingId: String, useColumnFamilies: Boolean,
      enableStateStoreCheckpointIds: Boolean, partitionId: Int,
      eventForwarder: Option[RocksDBEventForwarder], uniqueId: Option[String]): RocksDB = {
    val ours = conf.copy(
      enableChangelogCheckpointing = true, // Spark then calls our writer with every change
      minDeltasForSnapshot = Int.MaxValue, // and never makes a snapshot of its own
      trackTotalNumberOfRows = false) // which would cost a read for each write
    new ChangelogRocksDB(RuntimeConf(hadoopConf), stateStoreId.storeName, dfsRootDir, ours, localRootDir, hadoopConf,
      loggingId, useColumnFamilies, enableStateStoreCheckpointIds, partitionId, eventForwarder, uniqueId)
  }
}

class ChangelogRocksDB(runtime: RuntimeConf, sparkStoreName: String, dfsRootDir: String, conf: RocksDBConf,
    localRootDir: File, hadoopConf: Configuration, loggingId: String, useColumnFamilies: Boolean,
    enableStateStoreCheckpointIds: Boolean, partitionId: Int, eventForwarder: Option[RocksDBEventForwarder],
    uniqueId: Option[String])
  extends RocksDB(dfsRootDir, conf, localRootDir, hadoopConf, loggingId, useColumnFamilies,
    enableStateStoreCheckpointIds, partitionId, eventForwarder, uniqueId) {

  // Lazy: the parent's constructor asks for the file manager.
  private lazy val store = runtime.storeOf(sparkStoreName)
  private lazy val topic = new TopicPartition(runtime.changelogTopic(store), partitionId)
  private lazy val local = new StorePartition(s"store '$store', changelog $topic",
    Some(StorePlace(runtime.applicationId, store, partitionId)))
  private val scans = new PrefixScans(if (useColumnFamilies) RocksDBStateStoreProvider.VIRTUAL_COL_FAMILY_PREFIX_BYTES else 0)
  private def changelog: ChangelogFileManager = fileManager.asInstanceOf[ChangelogFileManager]
  changelog.attach(this)

  override protected def createFileManager(dfsRootDir: String, localTempDir: File, hadoopConf: Configuration,
      codecName: String, loggingId: String, storeConf: StateStoreConf): RocksDBFileManager =
    new ChangelogFileManager(runtime, store, topic, local, dfsRootDir, localTempDir, hadoopConf, loggingId)

  override def createColFamilyIfAbsent(name: String, isInternal: Boolean): Short = {
    val id = super.createColFamilyIfAbsent(name, isInternal)
    changelog.families.put(name, ColumnFamilyInfo(id, isInternal))
    id
  }

  override def removeColFamilyIfExists(name: String): Boolean = {
    val removed = super.removeColFamilyIfExists(name)
    changelog.families.remove(name)
    removed
  }

  /**
   * Loads a version for the running task attempt. The local database is used only when its version is CONFIRMED:
   * Spark raises the local version before the Kafka transaction commits, so after an abort the local files may hold
   * changes that never became real.
   */
  override def load(version: Long, stateStoreCkptId: Option[String], readOnly: Boolean,
      loadEmpty: Boolean): RocksDB = {
    require(stateStoreCkptId.isEmpty && !loadEmpty,
      "the changelog store has neither checkpoint ids nor empty versions: stateStore.checkpointFormatVersion must be 1")
    ProcessorShare.await()
    scans.close()
    changelog.begin(version)
    TaskContext.get().addTaskFailureListener((_: TaskContext, error: Throwable) => changelog.taskFailed(error))
    val attempt = changelog.transaction.ownerAttempt
    val unchanged = local.now match {
      case PartitionState.Confirmed(`version`, _) if loadedVersion == version => changelog.isUnchanged
      case _ => false
    }
    if (loadedVersion == version && local.usable(version, attempt, unchanged)) {
      if (!readOnly) changelog.refreshLocalBase(native)
    } else {
      loadedVersion = -1L
      local.reopen() // Spark closes the database
    }
    super.load(version, stateStoreCkptId, readOnly, loadEmpty)
    local.opened(changelog.snapshot)
    if (!readOnly) local.write(version, attempt)
    this
  }

  /** Spark may close the store as soon as it has committed, before the task's transaction has. */
  override def close(): Unit = if (local.close()) closeNow()

  private[state] def closeNow(): Unit = {
    scans.close()
    super.close()
  }

  override def prefixScan(prefix: Array[Byte], cfName: String): NextIterator[ByteArrayPair] = {
    updateMemoryUsageIfNeeded()
    val stored =
      if (useColumnFamilies) RocksDBStateStoreProvider.encodeStateRowWithPrefix(prefix, changelog.families.get(cfName).cfId) else prefix
    RocksDB.prefixUpperBound(stored).fold(super.prefixScan(prefix, cfName))(scans.scan(native, stored, _))
  }

  override def rollback(): Unit = {
    scans.close()
    super.rollback()
  }

  // The native deletion comes first, and our writer learns of it afterwards: keep a view of the rows before it.
  override def deleteRange(beginKey: Array[Byte], endKey: Array[Byte], cfName: String, includesPrefix: Boolean,
      includesChecksum: Boolean): Unit = {
    val before = native.getSnapshot
    changelog.beforeDeletion = before
    try super.deleteRange(beginKey, endKey, cfName, includesPrefix, includesChecksum)
    finally {
      changelog.beforeDeletion = null
      native.releaseSnapshot(before)
      before.close()
    }
  }

  override def commit(forceSnapshot: Boolean): (Long, StateStoreCheckpointInfo) = {
    requireSound()
    scans.close()
    val committed = super.commit(forceSnapshot)
    val db = native
    StoreStats.put(runtime.subTopology, sparkStoreName, StoreSize(store, partitionId,
      db.getLongProperty("rocksdb.estimate-num-keys"),
      db.getLongProperty("rocksdb.total-sst-files-size") + db.getLongProperty("rocksdb.cur-size-all-mem-tables")))
    committed
  }

  // Where a scan meets a damaged block, Spark's iterators take it for the end: then rows are missing, without an error.
  private def requireSound(): Unit = {
    if (SparkInternals.statistics(this).getTickerCount(TickerType.BLOCK_CHECKSUM_MISMATCH_COUNT) > 0) {
      throw new DamagedStoreException(s"store '$store', partition $partitionId: its files in $localRootDir are damaged")
    }
  }

  private[state] def native: NativeRocksDB = SparkInternals.native(this)
}
