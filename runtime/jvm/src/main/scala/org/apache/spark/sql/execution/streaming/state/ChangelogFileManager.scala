// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.streaming.state

import java.io.File
import java.nio.ByteBuffer
import java.util.concurrent.ConcurrentHashMap

import scala.collection.{mutable, Map}
import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.FileSystem
import org.apache.kafka.clients.producer.ProducerRecord
import org.apache.kafka.common.TopicPartition
import org.rocksdb.{ReadOptions, RocksDB => NativeRocksDB, RocksDBException}

import org.apache.spark.io.CompressionCodec
import org.apache.spark.sql.streamapp.{EpochRanges, Failpoint, PositionMismatchException, RestoreProgress, RuntimeConf, TaskTransaction, TopicReader, TransactionParticipant}

/**
 * Takes the place of Spark's files of a store, and keeps them on a changelog topic instead.
 *
 * It tells Spark that a snapshot exists exactly at the version asked for, so that Spark never replays anything
 * itself, and hands out the restored database when Spark asks for that snapshot.
 */
class ChangelogFileManager(runtime: RuntimeConf, store: String, changelog: TopicPartition, local: StorePartition, dfsRootDir: String, localTempDir: File, hadoopConf: Configuration, loggingId: String)
  extends RocksDBFileManager(dfsRootDir, localTempDir, hadoopConf, CompressionCodec.ZSTD, loggingId)
  with TransactionParticipant {

  private def partition: Int = changelog.partition
  private val fingerprint = runtime.fingerprintOf(store)
  /** The transaction of the task that has the store, or had it last. */
  @volatile private[state] var transaction: TaskTransaction = _
  /** All that have had the store, by their ids. */
  private val transactions = mutable.Map[String, TaskTransaction]()
  /** The column families of the live store: its keys start with their ids, so a restore needs the same ids. */
  val families = new ConcurrentHashMap[String, ColumnFamilyInfo]()
  /** The rows before a range deletion; set only while one runs. */
  @volatile var beforeDeletion: org.rocksdb.Snapshot = _

  private var db: ChangelogRocksDB = _
  private lazy val base = LocalBases.of(runtime, changelog, this)
  private var recordsSinceBase = 0L
  /** The offset behind the last version in the changelog that this process has read or committed. */
  private var writtenTo = -1L

  private[state] def attach(owner: ChangelogRocksDB): Unit = db = owner

  // No file system: the parent's constructor calls this.
  override protected def getFileSystem(dfsRootDir: String, hadoopConf: Configuration): FileSystem = null

  /** Gives the store to the running task, for an epoch. */
  private[state] def begin(epoch: Long): Unit = synchronized {
    transaction = TaskTransaction.ofTask(runtime, partition)
    transactions(transaction.id) = transaction
    transaction.begin(epoch, this)
  }

  /**
   * Whether the committed content of the changelog is still that of the local database. A task that was never in this process could have
   * committed since, where this one does not hold the id of its transaction.
   */
  private[state] def isUnchanged: Boolean = transaction.keeps(this) || {
    transaction.fence()
    !hasGrown
  }

  private def hasGrown: Boolean = {
    var records = 0L
    TopicReader.readToEnd(runtime, changelog, Some(writtenTo), throughOpen = true)(_ => records += 1)
    records > 0
  }

  override def requireUnchanged(): Unit = if (hasGrown) throw new IllegalStateException(
    s"changelog $changelog: another task has committed while this one opened its stores; it must be tried again")

  override def confirmed(version: Long, nextOffset: Long): Unit = {
    writtenTo = nextOffset
    if (local.confirmed(version, nextOffset)(snapshot)) db.closeNow()
  }

  private[state] def snapshot: Snapshot = new NativeSnapshot(db.native, families.asScala.view.mapValues(_.cfId).toMap)

  override def lost(): Unit = if (local.lost()) db.closeNow()

  // Offsets never go back. A topic that was made anew has lost the records that the local database still has.
  override def arrived(nextOffset: Long): Unit =
    if (nextOffset > 0 && nextOffset <= writtenTo) throw new PositionMismatchException(
      s"changelog $changelog was written up to offset $writtenTo, and takes records at offset ${nextOffset - 1}: it was " +
        "deleted and made anew, or truncated; its content is lost")

  /** Handles the failure of a task: if its local files were damaged, they must not be used again. */
  def taskFailed(error: Throwable): Unit =
    if (Iterator.iterate(error)(_.getCause).takeWhile(_ != null).exists {
      case _: RocksDBException | _: DamagedStoreException => true
      case _ => false
    }) base.distrust()

  /** Takes a new local base if one is due. To be called before a task changes the live database. */
  def refreshLocalBase(native: NativeRocksDB): Unit = local.now match {
    case PartitionState.Confirmed(version, nextOffset) if base.affordable && LocalBase.due(recordsSinceBase,
        native.getLongProperty("rocksdb.estimate-num-keys"), runtime.localBaseRecords, base.ageMs) =>
      if (base.take(native, nextOffset, familyMarker(version))) recordsSinceBase = 0L
    case _ =>
  }

  /** Restores the store as a whole: a database at `version` in `localDir`, from the local base and the changelog topic. */
  override def loadCheckpointFromDfs(version: Long, localDir: File, fileMapping: RocksDBFileMapping,
      checkpointUniqueId: Option[String]): RocksDBCheckpointMetadata = {
    val progress = RestoreProgress.start(store, partition)
    try {
      Failpoint.hit("store.before-restore", version, partition)
      fileMapping.clear()
      // First the fence: it settles what a former holder left open, so that the committed end is final.
      transaction.fence()
      // A holder of another id may have committed the last epoch a moment ago, and Kafka has not written down the end of that yet.
      if (!restore(version, localDir, progress, throughOpen = false)) restore(version, localDir, progress, throughOpen = true)
    } finally progress.finish()
    Failpoint.hit("store.after-restore", version, partition)
    checkpointMetadata
  }

  /** Returns false where epochs are missing, and reading through open transactions might find them. */
  private def restore(version: Long, localDir: File, progress: RestoreProgress, throughOpen: Boolean): Boolean =
    base.restore(runtime, db.getWriteBufferManagerAndCache(), progress, throughOpen) { content =>
      val whole = throughOpen || heldBy(content, version) >= version
      if (whole) {
        progress.finish()
        use(content, version, localDir)
      }
      whole
    }

  private def heldBy(content: LocalBase.Content, version: Long): Long =
    content.marker.map(_.version).getOrElse(if (version <= runtime.emptyUntil(store)) version else 0L)

  private def use(content: LocalBase.Content, version: Long, localDir: File): Unit = {
    val held = heldBy(content, version)
    content.marker.foreach(requireSameTopology)
    val committed = held == version + 1
    if (committed) content.marker.foreach(requireSameRanges)
    else if (held != version) throw new PositionMismatchException(
      s"changelog $changelog holds version $held, the epoch log asks for $version: the two do not belong together " +
        "(was one of the topics restored or deleted alone?)")
    try content.copyTo(localDir)
    catch { case error: Throwable => base.distrust(); throw error }
    recordsSinceBase = 0L
    writtenTo = content.offset
    families.clear()
    content.marker.foreach(_.families.foreach { case (name, family) =>
      families.put(name, ColumnFamilyInfo(family.id.toShort, family.internal))
    })
    if (committed && runtime.commitsTogether) {
      transaction.markAlreadyDone(partition)
      local.restoredDone(version, transaction.ownerAttempt)
    } else local.restored(version, content.offset)
  }

  private def requireSameTopology(marker: ChangelogMarker): Unit = {
    if (fingerprint.nonEmpty && marker.fingerprint != fingerprint) {
      throw new IncompatibleStateException(
        s"store '$store': changelog ${changelog.topic} was written by topology ${marker.fingerprint}, " +
          s"this one is $fingerprint: the state cannot be used: give the node another `store`, which begins empty, or undo the change")
    }
    if (marker.partitions != runtime.maxParallelism) {
      throw new IncompatibleStateException(
        s"store '$store' has ${marker.partitions} partitions, spec.maxParallelism is " +
          s"${runtime.maxParallelism}: it is fixed for the store's life")
    }
  }

  private def requireSameRanges(marker: ChangelogMarker): Unit =
    for (done <- marker.ranges; now <- EpochRanges.current if done != now) throw new PositionMismatchException(
      s"changelog $changelog has committed epoch ${marker.version - 1} with other records than the epoch log has: it was planned " +
        s"anew, and records would be lost (was topic ${runtime.metadataTopic} restored or truncated alone?)")

  private def checkpointMetadata: RocksDBCheckpointMetadata = {
    val known = families.asScala
    if (known.isEmpty) RocksDBCheckpointMetadata(Seq.empty[RocksDBImmutableFile], -1L)
    else RocksDBCheckpointMetadata(Seq.empty[RocksDBImmutableFile], -1L, -1L,
      Some(known.map { case (name, info) => name -> info.cfId }.toMap),
      Some(known.map { case (name, info) => name -> info.isInternal }.toMap),
      Some(known.values.map(_.cfId).max))
  }

  private def familyMarker(version: Long): ChangelogMarker =
    ChangelogMarker(version, fingerprint, runtime.maxParallelism,
      families.asScala.map { case (name, info) => name -> MarkedFamily(info.cfId, info.isInternal) }.toMap)

  override def getChangeLogWriter(version: Long, useColumnFamilies: Boolean, checkpointUniqueId: Option[String],
      lineage: Option[Array[LineageItem]]): StateStoreChangelogWriter =
    new TopicChangelogWriter(version, useColumnFamilies)

  /** Sends each change of one epoch to the changelog, always as the full new value of the key. */
  private final class TopicChangelogWriter(committing: Long, useColumnFamilies: Boolean)
    extends StateStoreChangelogWriter(NoFile, NoFile.path, NoFile.codec) {

    private val mergedKeys = new java.util.HashSet[ByteBuffer]()

    override def version: Short = if (useColumnFamilies) 2 else 1

    // Some operators change their store before the sink has asked for a row, so also when the epoch is done already: these changes are
    // in the changelog already, and those in the local files are dropped with the task.
    private def emit(key: Array[Byte], value: Array[Byte]): Unit = if (!transaction.alreadyDone(partition)) {
      recordsSinceBase += 1
      transaction.send(partition, new ProducerRecord(changelog.topic, partition, ChangelogRecord.dataKey(key), value))
    }

    override def put(key: Array[Byte], value: Array[Byte]): Unit = emit(key, value)

    override def delete(key: Array[Byte]): Unit = {
      mergedKeys.remove(ByteBuffer.wrap(key))
      emit(key, null)
    }

    // A merge operand is no value: compaction would keep only the last one. The full value is sent at commit.
    override def merge(key: Array[Byte], value: Array[Byte]): Unit = mergedKeys.add(ByteBuffer.wrap(key))

    override def deleteRange(beginKey: Array[Byte], endKey: Array[Byte]): Unit = {
      val options = new ReadOptions().setSnapshot(beforeDeletion)
      val rows = db.native.newIterator(options)
      try {
        rows.seek(beginKey)
        while (rows.isValid && java.util.Arrays.compareUnsigned(rows.key, endKey) < 0) {
          delete(rows.key)
          rows.next()
        }
      } finally {
        rows.close()
        options.close()
      }
    }

    override def commit(): Unit = {
      mergedKeys.forEach { key => emit(key.array, db.native.get(key.array)) }
      Failpoint.hit("store.changes-sent", committing - 1, partition)
      transaction.mark(partition, ChangelogFileManager.this, committing, new ProducerRecord(changelog.topic, partition,
        ChangelogRecord.MarkerKey, familyMarker(committing).copy(ranges = EpochRanges.current).toBytes))
      local.flushed(committing, transaction.ownerAttempt)
    }

    override def abort(): Unit = {
      lost()
      transaction.abort()
    }
  }

  // The answers to Spark about its files: a snapshot stands exactly where it looks, and nothing is ever uploaded or purged.
  override def saveCheckpointToDfs(checkpointDir: File, version: Long, numKeys: Long, numInternalKeys: Long,
      fileMapping: Map[String, RocksDBSnapshotFile], columnFamilyMapping: Option[Map[String, ColumnFamilyInfo]],
      maxColumnFamilyId: Option[Short], checkpointUniqueId: Option[String], verifyNonEmptyFilesInZip: Boolean): Unit = ()
  override def getChangelogReader(version: Long, checkpointUniqueId: Option[String]): StateStoreChangelogReader =
    throw new UnsupportedOperationException(s"Spark must not replay a changelog file (version $version)")
  override def existsSnapshotFile(version: Long, checkpointUniqueId: Option[String]): Boolean = true
  override def getLatestSnapshotVersion(version: Long): Long = version
  override def getLatestSnapshotVersion(): Long = 0L
  override def getEligibleSnapshotsForVersion(version: Long): Seq[Long] = Seq(version)
  override def getLatestVersion(): Long = 0L
  override def deleteOldVersions(numVersionsToRetain: Int, minVersionsToDelete: Int,
      maxVersionsToDeletePerMaintenance: Long): Unit = LocalBases.tidy(System.currentTimeMillis())

  override def close(): Unit = {
    LocalBases.release(this)
    val left = synchronized { val all = transactions.values.toList; transactions.clear(); all }
    left.foreach(each => each.leave(this, last = each eq transaction))
  }
}

/** The application's own code or settings changed what a store holds. */
final class IncompatibleStateException(message: String) extends RuntimeException(message)

/** A store's local files differ from what was written to them. The changelog does not, so the next attempt restores from it. */
final class DamagedStoreException(message: String) extends RuntimeException(message)
