// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.core.{JsonLocation, JsonProcessingException}
import com.fasterxml.jackson.databind.{DeserializationFeature, JsonNode, ObjectMapper}

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.api.java.UDF3
import org.apache.spark.sql.catalyst.json.{CreateJacksonParser, JacksonParser, JSONOptions}
import org.apache.spark.sql.types.{ArrayType, DataType, MapType, StringType, StructField, StructType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * The first mistake that keeps a JSON text from being read with a schema.
 *
 * @param error the whole mistake in one sentence.
 * @param field where it is: `key` or `value`, and the path below it, e.g. `value.items[2].price`.
 * @param expected the type that the schema asks for there.
 * @param found the JSON that is there; for a text that is not JSON, the parser's complaint, with its line and column.
 */
final case class JsonMistake(error: String, field: String, expected: String, found: String)

/** Looks for mistakes, for bad records only: a record that can be read never comes here. */
object JsonMistake {
  private val Longest = 120

  private final case class Place(path: String, expected: String, found: String)

  private val columns = StructType(Seq("error", "field", "expected", "found").map(StructField(_, StringType)))

  def register(spark: SparkSession): Unit = {
    val mistake: UDF3[String, String, String, Row] = (text, ddl, name) => Row.fromTuple(find(text, ddl, name))
    spark.udf.register("streamapp_json_mistake", mistake, columns)
  }

  /** @param name `key` or `value`. */
  def find(text: String, ddl: String, name: String): JsonMistake = {
    val at = place(text, StructType.fromDDL(ddl))
    val message =
      if (at.path.nonEmpty) s"`${at.path}` is ${at.found}, not ${at.expected}"
      else if (at.expected == "JSON") at.found
      else s"it is ${at.found}, not ${at.expected}"
    val field = if (at.path.isEmpty) name else s"$name.${at.path}"
    JsonMistake(s"the $name cannot be read as json: $message", field, at.expected, at.found)
  }

  private def place(text: String, schema: StructType): Place = {
    val options = new JSONOptions(Map.empty[String, String], "UTC", "")
    val mapper = new ObjectMapper(options.buildJsonFactory()).enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
    try {
      val root = mapper.readTree(text)
      if (root == null || root.isMissingNode) Place("", "JSON", "nothing")
      else within(root, schema, "", options).getOrElse(Place("", schema.sql, excerpt(root.toString)))
    } catch {
      case error: JsonProcessingException =>
        Place("", "JSON", excerpt(error.getOriginalMessage) + position(error.getLocation))
    }
  }

  private def within(node: JsonNode, wanted: DataType, path: String, options: JSONOptions): Option[Place] =
    if (readable(node, wanted, options)) None
    else {
      val below = wanted match {
        case struct: StructType if node.isObject =>
          struct.fields.iterator.filter(field => node.has(field.name)).flatMap { field =>
            val name = if (path.isEmpty) field.name else s"$path.${field.name}"
            within(node.get(field.name), field.dataType, name, options)
          }.nextOption()
        case ArrayType(element, _) if node.isArray =>
          node.elements.asScala.zipWithIndex.flatMap { case (item, i) =>
            within(item, element, s"$path[$i]", options)
          }.nextOption()
        case MapType(_, value, _) if node.isObject =>
          node.properties.asScala.iterator.flatMap { entry =>
            within(entry.getValue, value, s"$path['${entry.getKey}']", options)
          }.nextOption()
        case _ => None
      }
      below.orElse(Some(Place(path, wanted.sql, excerpt(node.toString))))
    }

  /** Whether Spark's own reader reads the node, so that a mistake is one exactly where it was for the record. */
  private def readable(node: JsonNode, wanted: DataType, options: JSONOptions): Boolean = {
    val parser = new JacksonParser(StructType(Seq(StructField("v", wanted))), options, allowArrayAsStructs = false)
    try {
      parser.parse(s"""{"v":$node}""", CreateJacksonParser.string, UTF8String.fromString)
      true
    } catch {
      case NonFatal(_) => false
    }
  }

  private def position(at: JsonLocation): String =
    if (at == null) "" else s" at line ${at.getLineNr}, column ${at.getColumnNr}"

  private def excerpt(text: String): String = {
    val line = text.linesIterator.nextOption().getOrElse("")
    if (line.length <= Longest) line else line.take(Longest - 1) + "…"
  }
}
