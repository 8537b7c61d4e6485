// SPDX-License-Identifier: Apache-2.0
package dev.streamapp.oracle

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}
import org.apache.kafka.common.serialization.{Deserializer, Serde, Serdes, Serializer}
import org.apache.kafka.streams.kstream.Windowed

/** Keys are text, values JSON objects. */
object Json {
  val Mapper = new ObjectMapper
  val Key: Serde[String] = Serdes.String()
  val Value: Serde[JsonNode] = Serdes.serdeFrom(
    ((_: String, value: JsonNode) => if (value == null) null else Mapper.writeValueAsBytes(value)): Serializer[JsonNode],
    ((_: String, bytes: Array[Byte]) => if (bytes == null) null else Mapper.readTree(bytes)): Deserializer[JsonNode])

  /** A field's number, or none where it is null. */
  def number(value: JsonNode, field: String): Option[Long] =
    Option(value).map(_.get(field)).filter(found => found != null && !found.isNull).map(_.asLong)

  /** A field's text, or null. */
  def text(value: JsonNode, field: String): String =
    Option(value).map(_.get(field)).filter(found => found != null && !found.isNull).map(_.asText).orNull

  def put(fields: (String, Option[Long])*): JsonNode = {
    val made = Mapper.createObjectNode()
    fields.foreach {
      case (name, Some(number)) => made.put(name, number)
      case (name, None) => made.putNull(name)
    }
    made
  }

  /** The result of a join of two records: the numbers of both. */
  def pair(left: JsonNode, right: JsonNode): JsonNode = put("left" -> number(left, "n"), "right" -> number(right, "n"))

  /** The `count` values with the highest `x`, among those before and a new one, the highest first; of equal ones those that came first. */
  def top(before: JsonNode, value: JsonNode, count: Int): JsonNode = {
    val rows = Option(before.get("top")).filter(_.isArray).fold(Seq.empty[JsonNode])(_.elements.asScala.toSeq)
    val found = (rows ++ number(value, "x").map(_ => value)).sortBy(-number(_, "x").get).take(count)
    val made = Mapper.createObjectNode()
    if (found.isEmpty) made.putNull("top") else found.foreach(made.withArray[ArrayNode]("top").add(_))
    made
  }

  /** The key of a window. */
  def windowed(key: Windowed[String]): String = {
    val made: ObjectNode = Mapper.createObjectNode()
    made.put("key", key.key).put("start", key.window.start).put("end", key.window.end).toString
  }
}
