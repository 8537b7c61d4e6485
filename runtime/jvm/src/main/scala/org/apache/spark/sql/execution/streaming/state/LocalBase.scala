// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.streaming.state

import java.io.File
import java.nio.file.Files

import org.apache.kafka.common.TopicPartition
import org.rocksdb.{Checkpoint, FlushOptions, Options, RocksDB => NativeRocksDB, RocksDBException, WriteBatch, WriteOptions}

import org.apache.spark.sql.streamapp.{RestoreProgress, RuntimeConf, TopicReader}
import org.apache.spark.util.Utils

/**
 * A database on local disk that is known to equal the changelog up to an offset, from which a restore goes on instead
 * of starting at the topic's beginning.
 *
 * It lives as long as the store does in this process and is never trusted across a restart of the process. Nothing
 * but committed records ever gets in: it is filled from the topic, or taken from a live store at a confirmed version.
 * A base older than the topic keeps tombstones could miss a deletion and is thrown away.
 */
private[state] final class LocalBase(folder: File, conf: RuntimeConf, changelog: TopicPartition) {
  import LocalBase._

  private var valid = false
  private var offset = -1L
  private var takenAtMs = 0L
  private var marker: Option[ChangelogMarker] = None

  /** Changelog records before this offset are in the base. */
  def nextOffset: Long = offset

  /** It may be damaged: the next restore does without it. The live store shares table files with it. */
  def distrust(): Unit = valid = false

  /** Brings the base to the committed end of the changelog and returns the marker found last, if there is one. */
  def catchUp(progress: RestoreProgress): Option[ChangelogMarker] = {
    val reusable = valid && System.currentTimeMillis() - takenAtMs < MaxAgeMs &&
      TopicReader.logStart(conf, changelog) <= offset
    if (!reusable) clear()
    try readOn(progress)
    catch { case _: RocksDBException if reusable => // damaged since it was made
      clear()
      readOn(progress)
    }
  }

  private def readOn(progress: RestoreProgress): Option[ChangelogMarker] = {
    val from = if (valid) Some(offset) else None
    valid = false // until all is applied: a failure on the way leaves the folder in an unknown state
    // A database that is expected and not there must not be taken for an empty one.
    val end = withNative(create = from.isEmpty) { (native, batch) =>
      TopicReader.readToEnd(conf, changelog, from, progress.update) { record =>
        if (ChangelogRecord.isMarker(record.key)) marker = Some(ChangelogMarker.fromBytes(record.value))
        else {
          val key = ChangelogRecord.rocksKey(record.key)
          if (record.value == null) batch.delete(key) else batch.put(key, record.value)
          if (batch.count() >= BatchRecords) write(native, batch)
        }
      }
    }
    offset = end
    takenAtMs = System.currentTimeMillis()
    valid = true
    marker
  }

  /** Takes a live database as the new base; `nextOffset` follows the marker of its version. */
  def take(native: NativeRocksDB, nextOffset: Long, marker: ChangelogMarker): Unit = {
    clear()
    val flush = new FlushOptions().setWaitForFlush(true)
    val checkpoint = Checkpoint.create(native)
    try {
      native.flush(flush) // the write-ahead log is off
      checkpoint.createCheckpoint(folder.toString)
    } finally {
      checkpoint.close()
      flush.close()
    }
    offset = nextOffset
    this.marker = Some(marker)
    takenAtMs = System.currentTimeMillis()
    valid = true
  }

  /** Puts a database equal to the base into `target`. Tables never change once written, so they are linked. */
  def copyTo(target: File): Unit = {
    if (target.exists) Utils.deleteRecursively(target)
    Utils.createDirectory(target)
    folder.listFiles().filter(file => file.isFile && file.getName != "LOCK" && !file.getName.startsWith("LOG"))
      .foreach { file =>
        val copy = new File(target, file.getName).toPath
        if (file.getName.endsWith(".sst")) Files.createLink(copy, file.toPath) else Files.copy(file.toPath, copy)
      }
  }

  private def clear(): Unit = {
    valid = false
    marker = None
    offset = -1L
    if (folder.exists) Utils.deleteRecursively(folder)
  }

  private def withNative(create: Boolean)(fill: (NativeRocksDB, WriteBatch) => Long): Long = {
    Utils.createDirectory(folder.getParentFile)
    val options = new Options().setCreateIfMissing(create).setWriteBufferSize(WriteBufferBytes)
    val batch = new WriteBatch()
    val flush = new FlushOptions().setWaitForFlush(true)
    val native = NativeRocksDB.open(options, folder.toString)
    try {
      val end = fill(native, batch)
      write(native, batch)
      native.flush(flush)
      end
    } finally {
      native.close()
      batch.close()
      flush.close()
      options.close()
    }
  }

  private def write(native: NativeRocksDB, batch: WriteBatch): Unit = {
    native.write(NoLog, batch)
    batch.clear()
  }
}

private object LocalBase {
  private val BatchRecords = 2000
  private val WriteBufferBytes = 64L << 20
  // Well below the changelog topics' delete.retention.ms of seven days.
  private val MaxAgeMs = 24L * 60 * 60 * 1000
  private lazy val NoLog = new WriteOptions().setDisableWAL(true)
}
