// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.streaming.state

import java.io.{ByteArrayOutputStream, FileNotFoundException, InputStream, OutputStream}

import org.apache.hadoop.fs.{FSDataInputStream, FileStatus, Path, PathFilter}

import org.apache.spark.io.CompressionCodec
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager.CancellableFSDataOutputStream

/** Spark's changelog writer opens a file in its constructor; ours writes to a topic and gives it one that goes nowhere. */
private[state] object NoFile extends CheckpointFileManager {
  val path = new Path("/none")

  val codec: CompressionCodec = new CompressionCodec {
    override def compressedOutputStream(out: OutputStream): OutputStream = out
    override def compressedInputStream(in: InputStream): InputStream = in
  }

  override def createAtomic(path: Path, overwriteIfPossible: Boolean): CancellableFSDataOutputStream =
    new CancellableFSDataOutputStream(new ByteArrayOutputStream(0)) { override def cancel(): Unit = () }
  override def open(path: Path): FSDataInputStream = throw new FileNotFoundException(path.toString)
  override def list(path: Path, filter: PathFilter): Array[FileStatus] = Array.empty
  override def mkdirs(path: Path): Unit = ()
  override def exists(path: Path): Boolean = false
  override def delete(path: Path): Unit = ()
  override def isLocal: Boolean = true
  override def createCheckpointDirectory(): Path = path
}
