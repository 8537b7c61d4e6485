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

  /** No further epoch is cut; the one under way runs to its end. */
  def drain(subTopology: String): Unit = EpochPacer.of(subTopology).drain()

  /** Totals per sub-topology as JSON (see EpochReports). */
  def epochs(): String = EpochReports.json()

  /** Restores as JSON (see Restores). */
  def restores(): String = Restores.json()
}
