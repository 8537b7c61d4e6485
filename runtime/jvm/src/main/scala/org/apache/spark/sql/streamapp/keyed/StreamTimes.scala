// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.nio.charset.StandardCharsets.UTF_8

import org.json4s.{DefaultFormats, Formats}
import org.json4s.jackson.Serialization

import org.apache.spark.sql.streamapp.MetadataTopic

/**
 * The event times that a sub-topology has reached at the end of an epoch. All times are microseconds since 1970.
 *
 * @param epoch the epoch that has ended
 * @param closed windows that end, with their grace, up to here are closed; never goes back
 * @param reached the stream time of each source partition: the latest event time that was read from it
 */
final case class StreamTimes(epoch: Long, closed: Long, reached: Map[String, Long]) {
  /** The stream time of a source partition; [[StreamTimes.Unknown]] before the first record. */
  def of(source: String): Long = reached.getOrElse(source, StreamTimes.Unknown)

  /**
   * The times at the end of the next epoch.
   *
   * @param seen the latest event time of each partition from which the epoch has read something
   * @param partitions all partitions; the times of others are forgotten
   * @param idle the partitions that windows do not wait for
   * @param upTo the time that is reached where all partitions are idle; else [[StreamTimes.Unknown]]
   * @param hops the time that the writer of each internal topic has reached, by the topic's tag, see [[HopTimes]]; the topics'
   *             own partitions do not count
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
  /** Before any event time, and far enough from the smallest number for durations to be subtracted from it. */
  val LongAgo: Long = Long.MinValue / 2
  /** The times before the first epoch. */
  val None: StreamTimes = StreamTimes(-1, Unknown, Map.empty)

  /** The time minus `lag`; Unknown stays Unknown. */
  def behind(time: Long, lag: Long): Long = if (time == Unknown) Unknown else time - lag

  /** The due time of something that is due at `time` on a clock that is `lag` behind; Long.MaxValue for never. */
  def dueBehind(time: Long, lag: Long): Long = if (time == Long.MaxValue) time else time + lag

  private implicit val formats: Formats = DefaultFormats

  def read(bytes: Array[Byte]): StreamTimes = Serialization.read[StreamTimes](new String(bytes, UTF_8))

  /** Forgets the times of a sub-topology: its next epoch begins without them. */
  def forget(applicationId: String, subTopology: String): Unit = {
    val metadata = MetadataTopic.current(applicationId)
    val file = path(applicationId, subTopology)
    if (metadata.get(file).isDefined) metadata.defer(Seq(file -> null))
  }

  /** The path of the file with the times, which is written in the transaction of Spark's `commits/EPOCH`. */
  def path(applicationId: String, subTopology: String): String = s"/$applicationId/$subTopology/times"
}
