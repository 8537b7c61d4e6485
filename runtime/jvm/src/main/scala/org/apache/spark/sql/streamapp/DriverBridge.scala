// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.{Map => JMap}

import scala.jdk.CollectionConverters._

/** What the driver's Python side calls; everything else happens at Spark's plug-in points. */
object DriverBridge {

  /** A run begins: opens the application's metadata topic as `owner` ("namespace/name/uid", or "local/name"),
   * and fences an older driver. */
  def begin(settings: JMap[String, String], owner: String): Unit = {
    EpochPacer.clear()
    EpochReports.clear()
    Restores.clear()
    MetadataTopic.open(RuntimeConf(settings.asScala.toMap), owner)
  }

  /** The run has ended; a later one in this process opens everything anew. */
  def end(applicationId: String): Unit = MetadataTopic.close(applicationId)

  /** A driver file as text, or null. */
  def readMetadata(applicationId: String, path: String): String =
    MetadataTopic.current(applicationId).get(path).map(file => new String(file.bytes, "UTF-8")).orNull

  def writeMetadata(applicationId: String, path: String, text: String): Unit =
    MetadataTopic.current(applicationId).put(Seq(path -> text.getBytes("UTF-8")))

  /** The time that an epoch behind a backlog should take, in ms. */
  def targetEpoch(subTopology: String, millis: Long): Unit = EpochPacer.of(subTopology).target(millis)

  /** No further epoch is cut; the one under way runs to its end. */
  def drain(subTopology: String): Unit = EpochPacer.of(subTopology).drain()

  /** Totals per sub-topology as JSON (see EpochReports). */
  def epochs(): String = EpochReports.json()

  /** Restores as JSON (see Restores). */
  def restores(): String = Restores.json()
}
