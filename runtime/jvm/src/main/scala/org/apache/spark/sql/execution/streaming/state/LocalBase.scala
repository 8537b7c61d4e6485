// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.streaming.state

import java.io.{File, IOException}
import java.nio.file.Files
import java.util.concurrent.locks.ReentrantLock

import scala.util.control.NonFatal

import org.apache.kafka.common.TopicPartition
import org.rocksdb.{BlockBasedTableConfig, Cache, Checkpoint, FlushOptions, Options, RocksDB => NativeRocksDB}
import org.rocksdb.{RocksDBException, WriteBatch, WriteBufferManager, WriteOptions}

import org.apache.spark.SparkEnv
import org.apache.spark.internal.Logging
import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.streamapp.{RestoreProgress, RuntimeConf, TopicReader}
import org.apache.spark.util.Utils

/**
 * A database on local disk that is known to equal a changelog partition up to an offset, from which a restore goes on
 * instead of starting at the topic's beginning.
 *
 * It belongs to the process ([[LocalBases]]), not to a store: it outlives the query's restart and a partition that goes away
 * and comes back. It is never trusted across a restart of the process. Nothing but committed records ever gets in: it is
 * filled from the topic, or taken from a live store at a confirmed version. A base older than the topic keeps tombstones
 * could miss a deletion and is thrown away.
 *
 * Stores of several runs of a query may use it at a time: one does, and restores wait.
 */
private[state] final class LocalBase(changelog: TopicPartition) extends Logging {
  import LocalBase._

  private val lock = new ReentrantLock()
  @volatile private var content: Option[Content] = None
  private var tookNs = 0L
  private var nextTakeNs = System.nanoTime()

  /**
   * Notes that a task found its database damaged. Tables are shared with it, so the next restore reads the base through before
   * it uses it; if that finds nothing, and the next database is damaged as well, the base goes.
   */
  def distrust(): Unit = content = content.flatMap(_.distrusted)

  /**
   * Brings the base to the committed end of the changelog.
   * @param memory the memory that the process's stores share
   * @param throughOpen see [[TopicReader.readToEnd]]
   * @param use gets the base while nobody changes it
   */
  def restore[Result](conf: RuntimeConf, memory: Memory, progress: RestoreProgress, throughOpen: Boolean)(use: Content => Result): Result = {
    lock.lockInterruptibly()
    try use(catchUp(conf, memory, progress, throughOpen)) finally lock.unlock()
  }

  private def catchUp(conf: RuntimeConf, memory: Memory, progress: RestoreProgress, throughOpen: Boolean): Content = {
    val start = content.filter { base =>
      System.currentTimeMillis() - base.takenAtMs < MaxAgeMs && TopicReader.logStart(conf, changelog) <= base.offset
    }
    if (start.isEmpty) clear()
    try readOn(conf, memory, start, progress, throughOpen)
    catch { case error: RocksDBException if start.isDefined => // damaged since it was made
      logWarning(s"the local base of $changelog is damaged; it is read from the topic", error)
      clear()
      readOn(conf, memory, None, progress, throughOpen)
    }
  }

  private def readOn(conf: RuntimeConf, memory: Memory, start: Option[Content], progress: RestoreProgress, throughOpen: Boolean): Content = {
    content = None // after a failure on the way, its content is not known
    val folder = start.map(_.folder).getOrElse(newFolder())
    try {
      val next = read(conf, memory, start.getOrElse(Content(folder, 0L, 0L, None, Sound)), start.isEmpty, progress, throughOpen)
      content = Some(next)
      next
    } finally if (content.isEmpty) delete(folder)
  }

  private def read(conf: RuntimeConf, memory: Memory, base: Content, create: Boolean, progress: RestoreProgress,
      throughOpen: Boolean): Content = {
    Utils.createDirectory(base.folder.getParentFile)
    var last: Option[Array[Byte]] = None // each epoch has left a marker, and only the last one counts
    val (writeBuffers, cache) = memory
    val options = new Options().setCreateIfMissing(create).setWriteBufferSize(WriteBufferBytes)
      .setTableFormatConfig(new BlockBasedTableConfig().setBlockCache(cache).setCacheIndexAndFilterBlocks(true))
    if (writeBuffers != null) options.setWriteBufferManager(writeBuffers)
    val batch = new WriteBatch()
    val flush = new FlushOptions().setWaitForFlush(true)
    // A database that is expected and missing must not be taken for an empty one.
    val native = NativeRocksDB.open(options, base.folder.toString)
    try {
      if (base.trust == Suspect) native.verifyChecksum()
      val end = TopicReader.readToEnd(conf, changelog, if (create) None else Some(base.offset), progress.update, throughOpen) { record =>
        if (ChangelogRecord.isMarker(record.key)) last = Some(record.value)
        else {
          val key = ChangelogRecord.rocksKey(record.key)
          if (record.value == null) batch.delete(key) else batch.put(key, record.value)
          if (batch.count() >= BatchRecords) write(native, batch)
        }
      }
      write(native, batch)
      native.flush(flush)
      val marker = last.map(ChangelogMarker.fromBytes).orElse(base.marker)
      Content(base.folder, end, System.currentTimeMillis(), marker, if (base.trust == Suspect) Verified else base.trust)
    } finally {
      native.close()
      batch.close()
      flush.close()
      options.close()
    }
  }

  /** The age of the base; None when there is none. */
  def ageMs: Option[Long] = content.map(base => System.currentTimeMillis() - base.takenAtMs)

  /** Whether a live store may take the time for a new base: all of them together cost a fiftieth of the time at most. */
  def affordable: Boolean = System.nanoTime() - nextTakeNs >= 0

  /**
   * Takes a live database as the new base. A failure costs nothing but the new base: the task goes on, and the old one stays.
   * @param nextOffset follows the marker of the database's version
   * @return whether there is a new base
   */
  def take(native: NativeRocksDB, nextOffset: Long, marker: ChangelogMarker): Boolean = lock.tryLock() && {
    val started = System.nanoTime()
    val folder = newFolder()
    try {
      val flush = new FlushOptions().setWaitForFlush(true)
      val checkpoint = Checkpoint.create(native)
      try {
        native.flush(flush) // the write-ahead log is off
        checkpoint.createCheckpoint(folder.toString)
      } finally {
        checkpoint.close()
        flush.close()
      }
      val former = content
      content = Some(Content(folder, nextOffset, System.currentTimeMillis(), Some(marker), Sound))
      former.foreach(base => delete(base.folder))
      tookNs = System.nanoTime() - started
      true
    } catch { case NonFatal(error) =>
      logWarning(s"no new local base of $changelog was made; a restore reads on from the last one", error)
      delete(folder)
      tookNs = RetryNs / Share
      false
    } finally {
      nextTakeNs = System.nanoTime() + Share * tookNs
      lock.unlock()
    }
  }

  /** Frees the disk. Returns false when the base is in use. */
  def evict(): Boolean = lock.tryLock() && {
    try { clear(); true } finally lock.unlock()
  }

  private def clear(): Unit = {
    content.foreach(base => delete(base.folder))
    content = None
  }

  private def newFolder(): File = new File(Utils.createTempDir(Utils.getLocalDir(SparkEnv.get.conf), "bases"), "base")

  private def delete(folder: File): Unit =
    try LocalBase.delete(folder.getParentFile)
    catch { case error: IOException => logWarning(s"$folder cannot be deleted", error) }

  private def write(native: NativeRocksDB, batch: WriteBatch): Unit = {
    native.write(NoLog, batch)
    batch.clear()
  }
}

private[state] object LocalBase {
  /** The bound of the native memory of the process's stores together; the first is null where there is no bound. */
  type Memory = (WriteBufferManager, Cache)

  private val BatchRecords = 2000
  private val WriteBufferBytes = 64L << 20
  // Well below the changelog topics' delete.retention.ms of twelve hours.
  private val MaxAgeMs = 6L * 60 * 60 * 1000
  private val RefreshAgeMs = MaxAgeMs / 2
  // A restore reads these in some hundredths of a second. A small store would be taken anew with each epoch.
  private val LeastRecords = 20000L
  private val Share = 50
  private val RetryNs = 60L * 1000 * 1000 * 1000
  private lazy val NoLog = new WriteOptions().setDisableWAL(true)

  /**
   * Whether a new base is due: when a restore would read more than a tenth of the store behind the base, or when the base
   * becomes too old to be used.
   *
   * @param changes changelog records since the base
   * @param rows about how many rows are in the store
   * @param most the number of changes that is too many for a store of any size
   * @param ageMs the age of the base; None when there is none
   */
  def due(changes: Long, rows: Long, most: Long, ageMs: Option[Long]): Boolean =
    changes >= math.min(most, math.max(LeastRecords, rows / 10)) || ageMs.forall(_ >= RefreshAgeMs)

  // Without a filter, Spark starts a process for it.
  private def delete(folder: File): Unit = JavaUtils.deleteRecursively(folder, (_, _) => true)

  sealed trait Trust
  case object Sound extends Trust
  /** The base shares tables with a database that was damaged. */
  case object Suspect extends Trust
  /** The base was suspect, and was read through since. */
  case object Verified extends Trust

  /** Changelog records before `offset` are in the database in `folder`; `marker` is the last one among them. */
  final case class Content(folder: File, offset: Long, takenAtMs: Long, marker: Option[ChangelogMarker], trust: Trust) {
    def distrusted: Option[Content] = if (trust == Verified) None else Some(copy(trust = Suspect))

    /** Puts an equal database into `target`. Tables never change once written, so they are linked. */
    def copyTo(target: File): Unit = {
      if (target.exists) delete(target)
      Utils.createDirectory(target)
      folder.listFiles().filter(file => file.isFile && file.getName != "LOCK" && !file.getName.startsWith("LOG"))
        .foreach { file =>
          val copy = new File(target, file.getName).toPath
          if (file.getName.endsWith(".sst")) link(file, copy) else Files.copy(file.toPath, copy)
        }
    }

    private def link(file: File, copy: java.nio.file.Path): Unit =
      try Files.createLink(copy, file.toPath)
      catch { case _: IOException if file.exists => Files.copy(file.toPath, copy) } // they are on different disks
  }
}
