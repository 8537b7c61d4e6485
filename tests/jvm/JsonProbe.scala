// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.{List => JList, Map => JMap}

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.json4s.DefaultFormats
import org.json4s.jackson.Serialization

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.expressions.{Alias, BoundReference, Expression, JsonToStructs}
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeProjection
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, OneRowRelation, Project}
import org.apache.spark.sql.classic.ClassicConversions.castToImpl
import org.apache.spark.sql.types.{StringType, StructType}
import org.apache.spark.unsafe.types.UTF8String

/** JSON as Spark reads it and as we do. */
object JsonProbe {
  /** @return for each text the row that Spark reads, that we read, and that we read in generated code, as JSON */
  def read(texts: JList[Array[Byte]], ddl: String, options: JMap[String, String]): String = {
    val schema = StructType.fromDDL(ddl)
    val theirs = JsonToStructs(schema, options.asScala.toMap, BoundReference(0, StringType, nullable = true), Some("UTC"))
    val ours = replaced(theirs)
    val generated = GenerateUnsafeProjection.generate(Seq(ours))
    Serialization.write(texts.asScala.map { bytes =>
      val text = InternalRow(UTF8String.fromBytes(bytes))
      Seq(shown(theirs.eval(text), schema), shown(ours.eval(text), schema), shown({
        val row = generated(text)
        if (row.isNullAt(0)) null else row.getStruct(0, schema.length)
      }, schema))
    })(DefaultFormats)
  }

  private def replaced(json: Expression): Expression =
    FromJson(Project(Seq(Alias(json, "json")()), OneRowRelation())).expressions.head.children.head

  private def shown(value: => Any, schema: StructType): String = Try(value match {
    case null => "null"
    case row => CatalystTypeConverters.convertToScala(row, schema).toString
  }).fold(error => s"${error.getClass.getSimpleName}: ${error.getMessage}", identity)

  /** The number of times that a row's texts are read for the frame, by Spark and by us. */
  def readings(frame: DataFrame): JList[Int] = {
    val state = castToImpl(frame).queryExecution.sparkSession.sessionState
    def count(plan: LogicalPlan): Int = state.optimizer.execute(plan).collect { case node => node.expressions }.flatten
      .flatMap(_.collect { case json @ (_: JsonToStructs | _: FromJson) => json }).size
    val plan = castToImpl(frame).queryExecution.analyzed
    Seq(count(plan), count(FromJson(plan))).asJava
  }
}
