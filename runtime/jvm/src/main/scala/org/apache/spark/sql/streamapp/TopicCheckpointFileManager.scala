// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, EOFException, FileNotFoundException}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataInputStream, FileAlreadyExistsException, FileStatus, Path, PathFilter, PositionedReadable, Seekable}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream
import org.apache.spark.sql.streamapp.keyed.EpochTimes

/**
 * Spark's checkpoint files on the application's metadata topic, so that nothing but Kafka has to be durable.
 * Spark makes one by name for every log it opens (`spark.sql.streaming.checkpointFileManagerClass`).
 */
class TopicCheckpointFileManager(root: Path, hadoopConf: Configuration) extends CheckpointFileManager {

  private lazy val topic = MetadataTopic.current(hadoopConf.get(RuntimeConf.Prefix + "applicationId"))

  private def key(path: Path): String = path.toUri.getPath

  override def createAtomic(path: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream = {
    def refuseExisting(): Unit =
      if (!overwriteIfPossible && topic.get(key(path)).isDefined) throw new FileAlreadyExistsException(path.toString)
    refuseExisting()
    val buffer = new ByteArrayOutputStream()
    new CancellableFSDataOutputStream(buffer) {
      private var ended = false
      override def close(): Unit = if (!ended) {
        ended = true
        refuseExisting()
        val change = (key(path) -> buffer.toByteArray) +: EpochTimes.riders(key(path))
        Failpoint.hitAt("metadata.before-write", key(path))
        if (mayWait(path)) {
          topic.defer(change)
          Failpoint.hitAt("metadata.deferred", key(path))
        } else if (isPlan(path)) topic.begin(key(path), change)
        else {
          topic.put(change)
          Failpoint.hitAt("metadata.after-write", key(path))
        }
      }
      override def cancel(): Unit = ended = true
    }
  }

  // The markers also say that an epoch has ended: its replay does nothing. So this file goes with the range of the next epoch.
  // But not the file of the first epoch, which says that the state has its form, and that the app has run.
  private def mayWait(path: Path): Boolean =
    path.getParent.getName == "commits" && path.getName.toLongOption.exists(_ > 0)

  // The sink waits for it before it runs a task: meanwhile the epoch is planned, and its records are read.
  private def isPlan(path: Path): Boolean = path.getParent.getName == "offsets" && path.getName.toLongOption.isDefined

  override def open(path: Path): FSDataInputStream = {
    val file = topic.get(key(path)).getOrElse(throw new FileNotFoundException(path.toString))
    new FSDataInputStream(new SeekableBytes(file.bytes))
  }

  override def list(path: Path, filter: PathFilter): Array[FileStatus] = {
    val prefix = key(path) + "/"
    val (folders, files) = topic.below(key(path)).filter(_._1 != prefix)
      .map { case (name, file) => (name.substring(prefix.length), file) }
      .partition(_._1.contains("/"))
    val fileStatuses = files.map { case (name, file) =>
      new FileStatus(file.bytes.length, false, 1, 1, file.modified, new Path(path, name))
    }
    val folderStatuses = folders.map(_._1.takeWhile(_ != '/')).distinct
      .map(name => new FileStatus(0, true, 1, 1, 0, new Path(path, name)))
    (fileStatuses ++ folderStatuses).filter(status => filter.accept(status.getPath)).toArray
  }

  override def mkdirs(path: Path): Unit =
    if (!topic.exists(key(path))) topic.defer(Seq((key(path) + "/") -> Array.emptyByteArray))

  override def exists(path: Path): Boolean = topic.exists(key(path))

  // Spark deletes only files that it does not read any more.
  override def delete(path: Path): Unit = {
    val gone = topic.below(key(path)).map(_._1) ++ topic.get(key(path)).map(_ => key(path))
    if (gone.nonEmpty) topic.defer(gone.map(_ -> null))
  }

  override def isLocal: Boolean = false

  override def createCheckpointDirectory(): Path = {
    mkdirs(root)
    root
  }
}

private final class SeekableBytes(bytes: Array[Byte]) extends ByteArrayInputStream(bytes)
    with Seekable with PositionedReadable {

  override def seek(position: Long): Unit = {
    if (position < 0 || position > count) throw new EOFException(s"seek to $position in $count bytes")
    pos = position.toInt
  }
  override def getPos: Long = pos
  override def seekToNewSource(position: Long): Boolean = false

  override def read(position: Long, buffer: Array[Byte], offset: Int, length: Int): Int = {
    val available = math.min(length, count - position.toInt)
    if (available <= 0) -1
    else {
      System.arraycopy(buf, position.toInt, buffer, offset, available)
      available
    }
  }
  override def readFully(position: Long, buffer: Array[Byte], offset: Int, length: Int): Unit =
    if (read(position, buffer, offset, length) < length) throw new EOFException(s"$length bytes at $position of $count")
  override def readFully(position: Long, buffer: Array[Byte]): Unit = readFully(position, buffer, 0, buffer.length)
}
