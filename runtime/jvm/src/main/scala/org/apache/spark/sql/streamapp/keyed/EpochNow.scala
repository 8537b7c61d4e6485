// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE
import org.apache.spark.sql.types.{DataType, DateType, TimestampNTZType, TimestampType}

/**
 * The time of the epoch in the expressions of a task, which live from epoch to epoch: Spark would fix the current time as the time at
 * which it optimizes them. It is the same in each run of the epoch.
 */
private[keyed] case class EpochNow() extends LeafExpression with CodegenFallback {
  override def dataType: DataType = TimestampType
  override def nullable: Boolean = false
  override def foldable: Boolean = false
  override def eval(input: InternalRow): Any = EpochNow.micros
}

private[keyed] object EpochNow {
  private val ofThread = new ThreadLocal[java.lang.Long]

  /** Sets the time of the epoch whose task goes on, on this thread. */
  def begin(micros: Long): Unit = ofThread.set(micros)

  /** Clears the time: the thread may answer a question next. */
  def end(): Unit = ofThread.remove()

  /** The epoch's time; for a question, the time of the clock. */
  private def micros: Long = Option(ofThread.get).fold(System.currentTimeMillis * 1000)(_.longValue)
}

/**
 * Gives expressions the time of the epoch as the current time: in a query's plan Spark does this for `current_timestamp`, but not for
 * `now`; in the rows of a task it is [[EpochNow]].
 */
object EpochTime extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    lazy val ofTask = plan.collectLeaves().exists(_.isInstanceOf[GivenRows])
    plan.transformAllExpressionsWithPruning(_.containsPattern(CURRENT_LIKE)) {
      case CurrentTimestamp() | Now() if ofTask => EpochNow()
      case Now() => CurrentTimestamp()
      case date: CurrentDate if ofTask && date.resolved => Cast(EpochNow(), DateType, date.timeZoneId)
      case local: LocalTimestamp if ofTask && local.resolved => Cast(EpochNow(), TimestampNTZType, local.timeZoneId)
    }
  }
}
