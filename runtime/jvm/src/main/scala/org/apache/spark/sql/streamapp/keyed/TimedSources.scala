// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

/**
 * What of a source windows do not wait for.
 *
 * @param partitions the keys of its idle partitions
 * @param silentUs when all are idle: for how long nothing has come beyond the time after which they are, in microseconds
 * @param over whether a run has read all that it reads, and windows are to close then
 * @param hops of internal topics, by their tags: how far time had come where they are written
 */
final case class Idleness(partitions: Set[String], silentUs: Option[Long], over: Boolean, hops: Map[String, Long] = Map.empty)

/**
 * The sources whose event time windows wait for, on the driver. Spark numbers the sources of a query; a tag names one for
 * as long as its records' event times mean the same, whatever its number is in the next version.
 */
object TimedSources {
  private final case class Source(tag: String, idleness: () => Idleness)
  private val sources = new ConcurrentHashMap[(String, Int), Source]()

  /**
   * @param number Spark's, as in the offset log
   * @param idleness when the last epoch was cut
   */
  def add(subTopology: String, number: Int, tag: String, idleness: () => Idleness): Unit =
    sources.put((subTopology, number), Source(tag, idleness))

  def tagOf(subTopology: String, number: Int): Option[String] = Option(sources.get((subTopology, number))).map(_.tag)

  /** Of all sources of a sub-topology. */
  def idleness(subTopology: String): Idleness = {
    val all = sources.asScala.iterator.collect { case ((sub, _), source) if sub == subTopology => source.idleness() }.toSeq
    val silent = all.flatMap(_.silentUs)
    Idleness(all.flatMap(_.partitions).toSet, if (silent.size == all.size) silent.minOption else None,
      all.nonEmpty && all.forall(_.over), all.flatMap(_.hops).toMap)
  }

  def clear(): Unit = sources.clear()

  /** A partition's name among the stream times. */
  def key(tag: String, topic: String, partition: Int): String = s"$tag/$topic/$partition"

  /** The tag in such a name. */
  def tagOf(key: String): String = key.takeWhile(_ != '/')
}
