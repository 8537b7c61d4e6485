// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.nio.charset.StandardCharsets.UTF_8
import java.util.{Map => JMap}

import scala.jdk.CollectionConverters._

import org.json4s.DefaultFormats
import org.json4s.jackson.Serialization

import org.apache.spark.sql.execution.streaming.state.LocalBases
import org.apache.spark.sql.kafka010.TableStarts
import org.apache.spark.sql.streamapp.keyed.{DriverShuffle, EpochTimes, HopTimes, OncePerRun, StreamTimes, TimedSources}

/** The calls of the driver's Python side; everything else happens at Spark's plug-in points. */
object DriverBridge {

  /**
   * Begins a run: opens the application's metadata topic as `owner` ("namespace/name/uid", or "local/name"),
   * and fences an older driver. The new owner takes over the state of `adopted`, null for nobody.
   */
  def begin(settings: JMap[String, String], owner: String, adopted: String): Unit = {
    EpochPacer.clear()
    EpochReports.clear()
    Restores.clear()
    TimedSources.clear()
    TableStarts.clear()
    OncePerRun.clear()
    DriverShuffle.clear()
    TransactionalIds.clear()
    MetadataTopic.open(RuntimeConf(settings.asScala.toMap), owner, Option(adopted))
  }

  /**
   * The traces of earlier runs, by sub-topology, as JSON: {"NAME": {"stateful": …, "offsets": "…", "planned": …,
   * "committed": …, "notes": {"hops": "…", …}}}, with the text of the last file of Spark's offset log (empty for
   * none), the last epochs of offset log and commit log (-1 for none), and the texts given to `note`, if any.
   */
  def known(applicationId: String): String = {
    val prefix = s"/$applicationId/"
    val parts = MetadataTopic.current(applicationId).below(s"/$applicationId").groupBy {
      case (path, _) => path.substring(prefix.length).takeWhile(_ != '/')
    }
    Serialization.write(parts.map { case (name, files) =>
      def last(log: String): Option[(Long, MetadataFile)] = files.flatMap { case (path, file) =>
        path.stripPrefix(s"$prefix$name/$log/").toLongOption.map(_ -> file)
      }.maxByOption(_._1)
      def text(file: MetadataFile): String = new String(file.bytes, UTF_8)
      val planned = last("offsets")
      name -> Map[String, Any](
        // Spark's own operators write down the form of their state, ours do not.
        "stateful" -> files.exists { case (path, _) =>
          path.startsWith(s"$prefix$name/state/") || path == pathOf(applicationId, name, "shape")
        },
        "offsets" -> planned.map { case (_, file) => text(file) }.getOrElse(""),
        "planned" -> planned.map(_._1).getOrElse(-1L),
        "committed" -> last("commits").map(_._1).getOrElse(-1L),
        "notes" -> files.collect { case (path, file) if Notes.exists(path == pathOf(applicationId, name, _)) =>
          path.substring(path.lastIndexOf('/') + 1) -> text(file)
        }.toMap)
    })(DefaultFormats)
  }

  /** Keeps a text about a sub-topology, one of `Notes`; `known` has it for the next run. */
  def note(applicationId: String, subTopology: String, name: String, text: String): Unit = {
    require(Notes.contains(name), name)
    MetadataTopic.current(applicationId).put(Seq(pathOf(applicationId, subTopology, name) -> text.getBytes(UTF_8)))
  }

  /** Forgets Spark's record of the form of a sub-topology's state. */
  def forgetState(applicationId: String, subTopology: String): Unit = {
    val topic = MetadataTopic.current(applicationId)
    val gone = topic.below(s"/$applicationId/$subTopology/state").map { case (path, _) => path -> null }
    if (gone.nonEmpty) topic.put(gone)
  }

  /** The names of notes: the internal topics that a sub-topology writes, the content of its stores, and the numbers of its sources. */
  private val Notes = Seq("hops", "shape", "sources")

  private def pathOf(applicationId: String, subTopology: String, note: String): String =
    s"/$applicationId/$subTopology/$note"

  /**
   * The reason why this driver has to stop, as another one has taken over or an internal topic was made anew; empty for none.
   * A driver without work writes nothing, and would never find out.
   */
  def objection(applicationId: String): String = MetadataTopic.objection(applicationId).map(_.getMessage).getOrElse("")

  /** The records that list the application's objects in Kafka, as JSON: {"own/…": "…"}. */
  def own(applicationId: String): String = Serialization.write(MetadataTopic.current(applicationId).own)(DefaultFormats)

  /** Writes such records, all or none; null deletes. */
  def noteOwn(applicationId: String, changes: JMap[String, String]): Unit =
    MetadataTopic.current(applicationId).put(changes.asScala.toSeq.map { case (key, text) =>
      key -> Option(text).map(_.getBytes(UTF_8)).orNull
    })

  /** Whether no consumer group of the applicationId's name has members or offsets. */
  def groupIsFree(applicationId: String): Boolean = MetadataTopic.current(applicationId).groupIsFree

  /** Makes durable which epochs have ended, as far as this driver has seen them end. */
  def flush(applicationId: String): Unit = MetadataTopic.current(applicationId).flush()

  /** Ends the run; a later one in this process opens everything anew. */
  def end(applicationId: String): Unit = {
    // Tasks that are still running must not commit when the metadata is closed, and nobody knows who owns it.
    TransactionalIds.clear()
    TaskTransaction.closeAll(applicationId)
    SourcePosition.closeAll(applicationId)
    LocalBases.closeAll(applicationId)
    EpochTimes.clear(applicationId)
    HopTimes.clear(applicationId)
    MetadataTopic.close(applicationId)
  }

  /** Drains a sub-topology: no further epoch is cut, and the one under way runs to its end. */
  def drain(subTopology: String): Unit = EpochPacer.of(subTopology).drain()

  /** Totals per sub-topology as JSON (see EpochReports). */
  def epochs(): String = EpochReports.json()

  /**
   * The times that sub-topologies have reached, as JSON: {"SUBTOPOLOGY": MICROSECONDS}, of those that go by time and have had an epoch
   * in this run; null before the first record.
   */
  def times(applicationId: String): String = Serialization.write(EpochTimes.lastTimes(applicationId).map { case (sub, times) =>
    sub -> (times.closed +: times.reached.values.toSeq).filter(_ != StreamTimes.Unknown).maxOption.map(Long.box).orNull
  })(DefaultFormats)

  /** Moves the time of a sub-topology on, in microseconds, for a test case (see EpochTimes.move). */
  def moveTime(applicationId: String, subTopology: String, to: Long): Unit = EpochTimes.move(applicationId, subTopology, to)

  /** Restores as JSON (see Restores). */
  def restores(): String = Restores.json()
}
