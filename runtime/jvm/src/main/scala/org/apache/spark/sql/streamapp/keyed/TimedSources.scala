// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

/**
 * The parts of a source that windows do not wait for.
 *
 * @param partitions the keys of its idle partitions
 * @param silentUs if all partitions are idle: how long they have been silent beyond the idle timeout, in microseconds
 * @param over whether a run to the end has read all its records, so that windows are to close
 * @param hops the time that the writer of each internal topic has reached, by the topic's tag
 */
final case class Idleness(partitions: Set[String], silentUs: Option[Long], over: Boolean, hops: Map[String, Long] = Map.empty)

/**
 * The sources whose event time windows wait for, on the driver. Spark numbers the sources of a query; a tag names a source
 * for as long as its records' event times mean the same, even if its number changes in the next version.
 */
object TimedSources {
  private final case class Source(tag: String, idleness: () => Idleness)
  private val sources = new ConcurrentHashMap[(String, Int), Source]()

  /**
   * @param number Spark's number of the source, as in the offset log
   * @param idleness gives the idleness when the last epoch was cut
   */
  def add(subTopology: String, number: Int, tag: String, idleness: () => Idleness): Unit =
    sources.put((subTopology, number), Source(tag, idleness))

  def tagOf(subTopology: String, number: Int): Option[String] = Option(sources.get((subTopology, number))).map(_.tag)

  /** The idleness of all sources of a sub-topology together. */
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
