// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.Executors

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

/** A driver's files, written and read as Spark does. Each opens and closes the metadata topic of one application. */
final class MetadataProbe(settings: java.util.Map[String, String]) {
  private val conf = RuntimeConf(settings.asScala.toMap)
  private val topic = MetadataTopic.open(conf, "local/probe", None)
  private val files = {
    val hadoop = new Configuration(false)
    hadoop.set(RuntimeConf.Prefix + "applicationId", conf.applicationId)
    new TopicCheckpointFileManager(new Path("/app/part"), hadoop)
  }

  /** Writes a file, and waits for it as the sink does. */
  def write(path: String): Unit = {
    begin(path)
    awaitWritten(new Path(path).getParent.toString)
  }

  def begin(path: String): Unit = {
    val stream = files.createAtomic(new Path(path), overwriteIfPossible = false)
    stream.write(path.getBytes(UTF_8))
    stream.close()
  }

  def awaitWritten(folder: String): Unit = topic.await(folder)

  def delete(path: String): Unit = files.delete(new Path(path))

  def exists(path: String): Boolean = files.exists(new Path(path))

  def flush(): Unit = topic.flush()

  /** Writes files in several threads, `each` in every thread, one after the other. */
  def writeTogether(threads: Int, each: Int): Unit = {
    val pool = Executors.newFixedThreadPool(threads)
    val writers = (0 until threads).map { thread =>
      pool.submit[Unit](() => (0 until each).foreach(number => write(s"/app/part-$thread/offsets/$number")))
    }
    try writers.foreach(_.get()) finally pool.shutdownNow()
  }

  def close(): Unit = MetadataTopic.close(conf.applicationId)
}
