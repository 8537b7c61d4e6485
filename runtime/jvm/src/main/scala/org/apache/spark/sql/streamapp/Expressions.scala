// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.{List => JList, Locale, Set => JSet}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{Column, DataFrame, SparkSession}
import org.apache.spark.sql.catalyst.analysis.{MultiAlias, UnresolvedAttribute, UnresolvedFunction}
import org.apache.spark.sql.catalyst.expressions.{Alias, And, Expression, IsNotNull, PlanExpression, PythonUDF, ScalaUDF}
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.expressions.objects.{Invoke, StaticInvoke}
import org.apache.spark.sql.classic.ClassicConversions.castToImpl
import org.apache.spark.sql.classic.ExpressionUtils

/** What Spark makes of the author's expressions; `spark/guard.py` judges it. */
object Expressions {

  /** The session forgets every function of Spark's that is not kept, so that no text can call it. Operators stay. */
  def restrict(spark: SparkSession, keep: JSet[String]): Unit = {
    val state = castToImpl(spark).sessionState
    val scalar = state.functionRegistry
    scalar.listFunction().filter(_.funcName.head.isLetter)
      .filterNot(name => keep.contains(name.funcName.toLowerCase(Locale.ROOT))).foreach(scalar.dropFunction)
    val tables = state.tableFunctionRegistry
    tables.listFunction().foreach(tables.dropFunction)
  }

  /** What Spark's own parser sees in the text: `call NAME` of a function, `column NAME`, a `query`, and a `name` given to it. */
  def read(spark: SparkSession, text: String): JList[String] = {
    val found = mutable.LinkedHashSet.empty[String]
    val parsed = castToImpl(spark).sessionState.sqlParser.parseExpression(text)
    if (parsed.isInstanceOf[Alias] || parsed.isInstanceOf[MultiAlias]) found += "name"
    parsed.foreach {
      case call: UnresolvedFunction => found += s"call ${call.nameParts.mkString(".").toLowerCase(Locale.ROOT)}"
      case column: UnresolvedAttribute => found += s"column ${column.nameParts.head.toLowerCase(Locale.ROOT)}"
      case _: PlanExpression[_] => found += "query"
      case _ =>
    }
    found.toSeq.asJava
  }

  /**
   * An aggregate over the fields of a struct, of the rows that have it.
   *
   * @param outside columns that are none of the struct's, in lower case
   * @param aggregates the functions in the text that aggregate, in lower case
   */
  def within(spark: SparkSession, text: String, struct: String, outside: JSet[String], aggregates: JSet[String]): Column = {
    val there = IsNotNull(UnresolvedAttribute.quoted(struct))
    def of(filter: Option[Expression]) = Some(filter.fold[Expression](there)(And(there, _)))
    ExpressionUtils.column(castToImpl(spark).sessionState.sqlParser.parseExpression(text).transformUp {
      case column: UnresolvedAttribute if !outside.contains(column.nameParts.head.toLowerCase(Locale.ROOT)) =>
        UnresolvedAttribute(struct +: column.nameParts)
      case call: UnresolvedFunction if aggregates.contains(call.nameParts.last.toLowerCase(Locale.ROOT)) =>
        call.copy(filter = of(call.filter))
      case call: AggregateExpression => call.copy(filter = of(call.filter)) // what the parser has words of its own for, as `first`
    })
  }

  /**
   * Names of all expressions in the analysed plan of a frame: of their classes, without Spark's package; for one that calls
   * a method of Java's or a function that was registered, with its name.
   */
  def classes(frame: DataFrame): JList[String] = {
    val found = mutable.TreeSet.empty[String]
    castToImpl(frame).queryExecution.analyzed.foreach(_.expressions.foreach(_.foreach(found += name(_))))
    found.toSeq.asJava
  }

  private def name(expression: Expression): String = {
    val kind = short(expression.getClass)
    expression match {
      case call: StaticInvoke => s"$kind ${short(call.staticObject)}.${call.functionName}"
      case call: Invoke => s"$kind ${call.functionName}"
      case call: ScalaUDF => s"$kind ${call.udfName.getOrElse("")}"
      case call: PythonUDF => s"$kind ${call.evalType}" // how it is called: on columns, on whole batches
      case _ => kind
    }
  }

  private def short(kind: Class[_]): String = kind.getName.stripSuffix("$").stripPrefix(Package)

  private val Package = "org.apache.spark.sql.catalyst.expressions."
}
