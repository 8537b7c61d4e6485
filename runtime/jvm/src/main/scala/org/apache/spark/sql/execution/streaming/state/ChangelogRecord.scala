// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.streaming.state

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper

/**
 * How a store's content lies on its changelog topic.
 *
 * A data record's key is 0x01 and the key as RocksDB has it (column family and encoded row); its value is RocksDB's,
 * or null for a deletion. The one record with the key 0x00 is the marker.
 */
object ChangelogRecord {
  private val Data: Byte = 1
  val MarkerKey: Array[Byte] = Array[Byte](0)

  def dataKey(rocksKey: Array[Byte]): Array[Byte] = {
    val key = new Array[Byte](rocksKey.length + 1)
    key(0) = Data
    System.arraycopy(rocksKey, 0, key, 1, rocksKey.length)
    key
  }

  def isMarker(key: Array[Byte]): Boolean = key.length == 1 && key(0) == 0

  def rocksKey(key: Array[Byte]): Array[Byte] = java.util.Arrays.copyOfRange(key, 1, key.length)
}

/** A column family as a marker records it. */
final case class MarkedFamily(id: Int, internal: Boolean)

/**
 * Says which version (Spark's: epoch + 1) the changelog partition holds, for which topology, and which column
 * families its keys belong to.
 *
 * @param ranges which records the version's epoch has read (see EpochRanges); none in markers of older versions
 */
final case class ChangelogMarker(version: Long, fingerprint: String, partitions: Int,
    families: Map[String, MarkedFamily], ranges: Option[String] = None) {
  def toBytes: Array[Byte] = {
    val node = ChangelogMarker.Json.createObjectNode()
      .put("version", version).put("fingerprint", fingerprint).put("partitions", partitions)
    val all = node.putObject("families")
    families.foreach { case (name, family) => all.putObject(name).put("id", family.id).put("internal", family.internal) }
    ranges.foreach(node.put("ranges", _))
    ChangelogMarker.Json.writeValueAsBytes(node)
  }
}

object ChangelogMarker {
  private val Json = new ObjectMapper

  def fromBytes(bytes: Array[Byte]): ChangelogMarker = {
    val node = Json.readTree(bytes)
    ChangelogMarker(node.required("version").asLong, node.required("fingerprint").asText, node.required("partitions").asInt,
      node.required("families").properties.asScala.map { family =>
        family.getKey -> MarkedFamily(family.getValue.required("id").asInt, family.getValue.required("internal").asBoolean)
      }.toMap, Option(node.get("ranges")).map(_.asText))
  }
}
