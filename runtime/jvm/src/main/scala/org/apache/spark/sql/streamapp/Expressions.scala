// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.time.ZoneId
import java.time.ZoneOffset.UTC
import java.util.Locale

import scala.collection.mutable

import org.json4s.DefaultFormats
import org.json4s.jackson.Serialization

import org.apache.spark.sql.{Column, DataFrame, SparkSession}
import org.apache.spark.sql.catalyst.analysis.{MultiAlias, UnresolvedAttribute, UnresolvedFunction}
import org.apache.spark.sql.catalyst.expressions.{Alias, And, Cast, Expression, IsNotNull, PlanExpression, PythonUDF, ScalaUDF}
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.expressions.objects.{Invoke, StaticInvoke}
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.classic.ClassicConversions.castToImpl
import org.apache.spark.sql.classic.ExpressionUtils
import org.apache.spark.sql.types.{DataType, DateType, StringType, TimestampNTZType, TimestampType}

/**
 * Spark's analysis of the author's expressions; `spark/guard.py` judges it. Names come and go as a JSON array: for Python each call is
 * a message, and each element of a collection would be one.
 */
object Expressions {
  private implicit val formats: DefaultFormats.type = DefaultFormats

  /** Removes every function of Spark's that is not kept from the session, so that no text can call it. Operators stay. */
  def restrict(spark: SparkSession, kept: String): Unit = {
    val keep = names(kept)
    val state = castToImpl(spark).sessionState
    val scalar = state.functionRegistry
    scalar.listFunction().filter(_.funcName.head.isLetter)
      .filterNot(name => keep.contains(name.funcName.toLowerCase(Locale.ROOT))).foreach(scalar.dropFunction)
    val tables = state.tableFunctionRegistry
    tables.listFunction().foreach(tables.dropFunction)
  }

  /** Returns what Spark's own parser finds in the text: `call NAME` of a function, `column NAME`, a `query`, and a `name` given to the text. */
  def read(spark: SparkSession, text: String): String = {
    val found = mutable.LinkedHashSet.empty[String]
    val parsed = castToImpl(spark).sessionState.sqlParser.parseExpression(text)
    if (parsed.isInstanceOf[Alias] || parsed.isInstanceOf[MultiAlias]) found += "name"
    parsed.foreach {
      case call: UnresolvedFunction => found += s"call ${call.nameParts.mkString(".").toLowerCase(Locale.ROOT)}"
      case column: UnresolvedAttribute => found += s"column ${column.nameParts.head.toLowerCase(Locale.ROOT)}"
      case _: PlanExpression[_] => found += "query"
      case _ =>
    }
    Serialization.write(found.toSeq)
  }

  /**
   * An aggregate over the fields of a struct, over the rows that have the struct.
   *
   * @param outside the columns that do not belong to the struct, in lower case
   * @param aggregates the functions in the text that aggregate, in lower case
   */
  def within(spark: SparkSession, text: String, struct: String, outside: String, aggregates: String): Column = {
    val (others, folds) = (names(outside), names(aggregates))
    val there = IsNotNull(UnresolvedAttribute.quoted(struct))
    def of(filter: Option[Expression]) = Some(filter.fold[Expression](there)(And(there, _)))
    ExpressionUtils.column(castToImpl(spark).sessionState.sqlParser.parseExpression(text).transformUp {
      case column: UnresolvedAttribute if !others.contains(column.nameParts.head.toLowerCase(Locale.ROOT)) =>
        UnresolvedAttribute(struct +: column.nameParts)
      case call: UnresolvedFunction if folds.contains(call.nameParts.last.toLowerCase(Locale.ROOT)) =>
        call.copy(filter = of(call.filter))
      case call: AggregateExpression => call.copy(filter = of(call.filter)) // aggregates with a syntax of their own, as `first`
    })
  }

  /**
   * The names of all expressions in the analysed plan of a frame: their classes, without Spark's package; for a call of a method of
   * Java's or of a registered function, with its name; and for a text that Spark takes for the time of its clock, with the text.
   */
  def classes(frame: DataFrame): String = {
    val found = mutable.TreeSet.empty[String]
    castToImpl(frame).queryExecution.analyzed.foreach(_.expressions.foreach(_.foreach(found += name(_))))
    Serialization.write(found.toSeq)
  }

  private def names(json: String): Set[String] = Serialization.read[Set[String]](json)

  private def name(expression: Expression): String = {
    val kind = short(expression.getClass)
    expression match {
      case call: StaticInvoke => s"$kind ${short(call.staticObject)}.${call.functionName}"
      case call: Invoke => s"$kind ${call.functionName}"
      case call: ScalaUDF => s"$kind ${call.udfName.getOrElse("")}"
      case call: PythonUDF => s"$kind ${call.evalType}" // the kind of call: on columns, on whole batches
      case Cast(text, to, zone, _) if text.foldable && text.dataType == StringType =>
        movingTime(text, to, zone.fold[ZoneId](UTC)(DateTimeUtils.getZoneId)).fold(kind)(word => s"$kind of '$word'")
      case _ => kind
    }
  }

  // 'now' and its kin are replaced when an epoch is planned, 'epoch' always by the same time. A text that becomes no time is not
  // computed here: a constant may well be an error.
  private def movingTime(text: Expression, to: DataType, zone: ZoneId): Option[String] = Special.get(to).flatMap { known =>
    Option(text.eval()).map(_.toString)
      .filter(word => known(word, zone).isDefined && !word.trim.toLowerCase(Locale.ROOT).startsWith("epoch"))
  }
  private val Special = Map[DataType, (String, ZoneId) => Option[Any]](
    DateType -> DateTimeUtils.convertSpecialDate,
    TimestampType -> DateTimeUtils.convertSpecialTimestamp,
    TimestampNTZType -> DateTimeUtils.convertSpecialTimestampNTZ)

  private def short(kind: Class[_]): String = kind.getName.stripSuffix("$").stripPrefix(Package)

  private val Package = "org.apache.spark.sql.catalyst.expressions."
}
