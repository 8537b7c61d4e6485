// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.{List => JList, Map => JMap}

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.catalyst.expressions.{Alias, Expression, JsonToStructs, Literal}
import org.apache.spark.sql.catalyst.expressions.codegen.GenerateUnsafeProjection
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, OneRowRelation, Project}
import org.apache.spark.sql.classic.ClassicConversions.castToImpl
import org.apache.spark.sql.types.{StringType, StructType}
import org.apache.spark.unsafe.types.UTF8String

/** JSON as Spark reads it and as we do. */
object JsonProbe {
  /** @return for each text the row that Spark reads, that we read, and that we read in generated code */
  def read(texts: JList[Array[Byte]], ddl: String, options: JMap[String, String]): JList[JList[String]] = {
    val schema = StructType.fromDDL(ddl)
    def spark(text: Expression) = JsonToStructs(schema, options.asScala.toMap, text, Some("UTC"))
    texts.asScala.map { bytes =>
      val text = Literal(UTF8String.fromBytes(bytes), StringType)
      val ours = replaced(spark(text))
      Seq(shown(spark(text).eval(), schema), shown(ours.eval(), schema), shown({
        val row = GenerateUnsafeProjection.generate(Seq(ours))(null)
        if (row.isNullAt(0)) null else row.getStruct(0, schema.length)
      }, schema)).asJava
    }.asJava
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
