// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Map => JMap}

import scala.jdk.CollectionConverters._

import org.json4s.DefaultFormats
import org.json4s.jackson.Serialization

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

  /**
   * What earlier runs have left of sub-topologies, as JSON: {"NAME": {"stateful": …, "offsets": "…"}}, with the text of
   * the last file of Spark's offset log (empty for none).
   */
  def known(applicationId: String): String = {
    val prefix = s"/$applicationId/"
    val parts = MetadataTopic.current(applicationId).below(s"/$applicationId").groupBy {
      case (path, _) => path.substring(prefix.length).takeWhile(_ != '/')
    }
    Serialization.write(parts.map { case (name, files) =>
      val logged = files.flatMap { case (path, file) =>
        path.stripPrefix(s"$prefix$name/offsets/").toLongOption.map(_ -> file.bytes)
      }
      name -> Map[String, Any](
        "stateful" -> files.exists { case (path, _) => path.startsWith(s"$prefix$name/state/") },
        "offsets" -> logged.maxByOption(_._1).map { case (_, bytes) => new String(bytes, UTF_8) }.getOrElse(""))
    })(DefaultFormats)
  }

  /** Why this driver has to stop, as another one has taken over; empty when it has not. A driver without work writes
   * nothing, and would never find out. */
  def objection(applicationId: String): String = MetadataTopic.objection(applicationId).getOrElse("")

  /** The run has ended; a later one in this process opens everything anew. */
  def end(applicationId: String): Unit = {
    TaskTransaction.closeAll(applicationId)
    MetadataTopic.close(applicationId)
  }

  /** No further epoch is cut; the one under way runs to its end. */
  def drain(subTopology: String): Unit = EpochPacer.of(subTopology).drain()

  /** Totals per sub-topology as JSON (see EpochReports). */
  def epochs(): String = EpochReports.json()

  /** Restores as JSON (see Restores). */
  def restores(): String = Restores.json()
}
