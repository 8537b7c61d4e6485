// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan, Statistics, SupportsNonDeterministicExpression}
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.catalyst.trees.TreePattern.{CURRENT_LIKE, EXPRESSION_WITH_RANDOM_SEED}
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.util.Utils

/**
 * The plan of a query, analysed and optimized once for all its epochs. Spark does both anew for each epoch, which takes half of the
 * time that the driver spends on a small one; and nothing of it depends on the epoch's records.
 *
 * Spark sees no more than the sources, into which it writes the range of the epoch, and the clock, which it replaces by the time of the epoch.
 * When Spark asks for a physical plan, [[StandingPlanStrategy]] puts both where they belong in the whole plan.
 *
 * @param whole the optimized plan, with a [[SourcePlace]] for each source, and `CurrentBatchTimestamp` for the current time
 * @param clock the current time
 * @param children the sources
 */
final case class StandingPlan(whole: LogicalPlan, clock: Expression, children: Seq[LogicalPlan])
  extends LogicalPlan with SupportsNonDeterministicExpression {
  override def output: Seq[Attribute] = whole.output
  override def producedAttributes: AttributeSet = outputSet
  // Spark takes the epoch's time for a nondeterministic expression.
  override def allowNonDeterministicExpression: Boolean = true
  override def innerChildren: Seq[LogicalPlan] = Seq(whole)
  override protected def withNewChildrenInternal(newChildren: IndexedSeq[LogicalPlan]): StandingPlan = copy(children = newChildren)

  /** The plan of an epoch, over its sources and with its time; only for an epoch that is being planned. */
  private[streamapp] def ofEpoch: LogicalPlan = {
    val millis = Math.floorDiv(clock.eval().asInstanceOf[Long], 1000L)
    val read = whole.transformUp { case place: SourcePlace => children(place.number) }
    // Spark's own last step for an epoch's optimized plan.
    read.transformAllExpressionsWithPruning(_.containsAnyPattern(CURRENT_LIKE, EXPRESSION_WITH_RANDOM_SEED)) {
      case CurrentBatchTimestamp(_, dataType, zone) => CurrentBatchTimestamp(millis, dataType, zone).toLiteral
      case random: ExpressionWithRandomSeed => random.withNewSeed(Utils.random.nextLong())
    }
  }
}

/** Stands for a source in a plan that is optimized. */
private[streamapp] final case class SourcePlace(number: Int, output: Seq[Attribute]) extends LeafNode {
  override def isStreaming: Boolean = true
  override def computeStats(): Statistics = Statistics(sizeInBytes = conf.defaultSizeInBytes)
}

object StandingPlan {
  // Spark ignores the time zone where an expression has none of its own, but wants one.
  private val NoZone = Some("UTC")

  /** Returns a frame of the same rows whose queries do not analyse and optimize its plan for each epoch. */
  def of(frame: DataFrame): DataFrame = {
    val rows = frame.asInstanceOf[Dataset[Row]]
    val session = rows.sparkSession
    val analyzed = rows.queryExecution.analyzed
    val sources = analyzed.collectLeaves().collect { case source: StreamingRelationV2 => source }.distinct
    // Otherwise the optimizer would take the current time for that of the epoch, as it does for a plan that runs once.
    val open = analyzed
      .transform { case source: StreamingRelationV2 => SourcePlace(sources.indexOf(source), source.output) }
      .transformAllExpressionsWithPruning(_.containsPattern(CURRENT_LIKE)) {
        case now: CurrentTimestamp => CurrentBatchTimestamp(0, now.dataType, NoZone)
        case local: LocalTimestamp => CurrentBatchTimestamp(0, local.dataType, local.timeZoneId)
        case date: CurrentDate => CurrentBatchTimestamp(0, date.dataType, date.timeZoneId)
      }
    val whole = session.withActive(session.sessionState.optimizer.execute(open))
    Dataset.ofRows(session, StandingPlan(whole, CurrentTimestamp(), sources))
  }
}

/** Plans an epoch of a [[StandingPlan]]. */
object StandingPlanStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case standing: StandingPlan => Seq(planLater(standing.ofEpoch))
    case _ => Nil
  }
}
