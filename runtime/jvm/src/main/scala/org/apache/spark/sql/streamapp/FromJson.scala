// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.io.ByteArrayInputStream

import scala.util.control.NonFatal

import com.fasterxml.jackson.core.{JsonFactory, JsonParser}

import org.apache.spark.sql.catalyst.expressions.{Expression, JsonToStructs, UnaryExpression}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.expressions.json.JsonToStructsEvaluator
import org.apache.spark.sql.catalyst.json.{JacksonParser, JSONOptions}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern
import org.apache.spark.sql.catalyst.util.{FailFastMode, FailureSafeParser}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * Spark's `from_json` of an object, with the same results. Spark takes it for something that costs nothing: it reads the text anew for
 * each condition on its content. This one reads it once. Generated code around it need not stop for it, and it reads bytes where Spark
 * reads characters.
 */
final case class FromJson(reader: JsonReader, child: Expression) extends UnaryExpression {
  override def dataType: DataType = reader.spark.nullableSchema
  override def nullable: Boolean = true
  override def expensive: Boolean = true
  override protected def nullSafeEval(text: Any): Any = reader.read(text.asInstanceOf[UTF8String])
  override protected def doGenCode(context: CodegenContext, code: ExprCode): ExprCode = {
    val json = context.addReferenceObj("fromJson", reader)
    nullSafeCodeGen(context, code, text =>
      s"""${code.value} = (InternalRow) $json.read($text);
         |${code.isNull} = ${code.value} == null;""".stripMargin)
  }
  override protected def withNewChildInternal(newChild: Expression): FromJson = copy(child = newChild)
}

/** @param spark reads all texts that are not plain: its word is the last on the mistake in a text */
final case class JsonReader(spark: JsonToStructsEvaluator) {
  @transient private lazy val plain = {
    val schema = spark.nullableSchema.asInstanceOf[StructType]
    val options = new JSONOptions(spark.options, spark.timeZoneId.get, spark.nameOfCorruptRecord)
    val corrupt = options.columnNameOfCorruptRecord
    val parser = new JacksonParser(StructType(schema.filterNot(_.name == corrupt)), options, allowArrayAsStructs = false)
    new FailureSafeParser[UTF8String](parser.parse(_, JsonReader.bytesOf, identity[UTF8String]), FailFastMode, schema, corrupt)
  }

  /** @return null where there is no object; good until the next call */
  def read(text: UTF8String): Any =
    if (!JsonReader.isPlain(text)) spark.evaluate(text)
    else {
      val rows = try plain.parse(text) catch { case NonFatal(_) => null }
      if (rows == null) spark.evaluate(text) else if (rows.hasNext) rows.next() else null
    }
}

object JsonReader {
  private val bytesOf: (JsonFactory, UTF8String) => JsonParser = (factory, text) => {
    val bytes = text.getByteBuffer
    // From the array itself, Spark would take a text out at another place.
    factory.createParser(new ByteArrayInputStream(bytes.array, bytes.arrayOffset + bytes.position(), bytes.remaining))
  }

  // The parser guesses the encoding of other bytes, which Spark takes for UTF-8 with replacements.
  private def isPlain(text: UTF8String): Boolean = text.numBytes > 1 && text.getByte(0) == '{' && text.getByte(1) != 0 && text.isValid
}

/** Replaces Spark's `from_json`. */
object FromJson extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    plan.transformAllExpressionsWithPruning(_.containsPattern(TreePattern.JSON_TO_STRUCT)) {
      case json: JsonToStructs if json.resolved && json.schema.isInstanceOf[StructType] =>
        val evaluator = JsonToStructsEvaluator(json.options, json.dataType, SQLConf.get.getConf(SQLConf.COLUMN_NAME_OF_CORRUPT_RECORD),
          json.timeZoneId, json.variantAllowDuplicateKeys)
        FromJson(JsonReader(evaluator), json.child)
    }
}
