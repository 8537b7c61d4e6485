// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

/**
 * The sources whose event time windows wait for, on the driver. Spark numbers the sources of a query; a tag names one for
 * as long as its records' event times mean the same, whatever its number is in the next version.
 */
object SourceTags {
  private final case class Source(tag: String, idle: () => Set[String])
  private val sources = new ConcurrentHashMap[(String, Int), Source]()

  /**
   * @param number Spark's, as in the offset log
   * @param idle the keys of the partitions that the epoch which is being cut does not wait for
   */
  def add(subTopology: String, number: Int, tag: String, idle: () => Set[String]): Unit =
    sources.put((subTopology, number), Source(tag, idle))

  def of(subTopology: String, number: Int): Option[String] = Option(sources.get((subTopology, number))).map(_.tag)

  def idle(subTopology: String): Set[String] =
    sources.asScala.iterator.collect { case ((sub, _), source) if sub == subTopology => source.idle() }.flatten.toSet

  def clear(): Unit = sources.clear()

  /** A partition's name among the stream times. */
  def key(tag: String, topic: String, partition: Int): String = s"$tag/$topic/$partition"
}
