// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.nio.charset.StandardCharsets.UTF_8

import org.json4s.{DefaultFormats, Formats}
import org.json4s.jackson.Serialization

import org.apache.spark.sql.streamapp.MetadataTopic

/**
 * How far event time has come in a sub-topology when an epoch has ended. All times are microseconds since 1970.
 *
 * @param epoch the one that has ended
 * @param closed windows are closed that end, with their grace, up to here; never goes back
 * @param reached the stream time of each source partition: the latest event time that was read of it
 */
final case class StreamTimes(epoch: Long, closed: Long, reached: Map[String, Long]) {
  /** [[StreamTimes.Unknown]] before the first record. */
  def of(source: String): Long = reached.getOrElse(source, StreamTimes.Unknown)

  /**
   * The times at the end of the next epoch.
   *
   * @param seen how far the partitions have come of which it has read something
   * @param partitions all that there are; what is known of others is forgotten
   * @param idle those that windows do not wait for
   * @param upTo how far time has come where all are idle; else [[StreamTimes.Unknown]]
   * @param hops by the tags of internal topics: how far time had come where they are written, see [[HopTimes]]; their own
   *             partitions do not count
   */
  def after(seen: Map[String, Long], partitions: Set[String], idle: Set[String], upTo: Long, hops: Map[String, Long]): StreamTimes = {
    val times = (reached ++ seen.map { case (source, time) => source -> math.max(time, of(source)) })
      .filter { case (source, _) => partitions(source) }
    val own = (partitions -- idle).filterNot(source => hops.contains(TimedSources.tagOf(source))).map(times.getOrElse(_, StreamTimes.Unknown))
    val slowest = (own ++ hops.values.filter(_ != HopTimes.NotAwaited)).minOption.getOrElse(StreamTimes.Unknown)
    StreamTimes(epoch + 1, Seq(closed, slowest, upTo).max, times)
  }

  def toBytes: Array[Byte] = Serialization.write(this)(DefaultFormats).getBytes(UTF_8)
}

object StreamTimes {
  val Unknown: Long = Long.MinValue
  /** Before any event time, and far enough from the end of the numbers for durations to be taken from it. */
  val LongAgo: Long = Long.MinValue / 2
  /** Before the first epoch. */
  val None: StreamTimes = StreamTimes(-1, Unknown, Map.empty)

  /** The time so much earlier. */
  def behind(time: Long, lag: Long): Long = if (time == Unknown) Unknown else time - lag

  /** When something is due that is due at `time` where time is so much behind; Long.MaxValue for never. */
  def dueBehind(time: Long, lag: Long): Long = if (time == Long.MaxValue) time else time + lag

  private implicit val formats: Formats = DefaultFormats

  def read(bytes: Array[Byte]): StreamTimes = Serialization.read[StreamTimes](new String(bytes, UTF_8))

  /** Its next epoch begins without. */
  def forget(applicationId: String, subTopology: String): Unit = {
    val metadata = MetadataTopic.current(applicationId)
    val file = path(applicationId, subTopology)
    if (metadata.get(file).isDefined) metadata.defer(Seq(file -> null))
  }

  /** Where it is kept: it is written in the transaction of Spark's `commits/EPOCH`. */
  def path(applicationId: String, subTopology: String): String = s"/$applicationId/$subTopology/times"
}
