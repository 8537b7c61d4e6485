// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.json4s.DefaultFormats
import org.json4s.jackson.Serialization

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, AttributeSet, BoundReference, Expression, UnsafeProjection}
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.execution.exchange.{REPARTITION_BY_NUM, ShuffleExchangeExec}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

/**
 * A join of two streams, as the manifest has it; times are in microseconds.
 *
 * @param before how much earlier than a left row's event time the right row's may be
 * @param after how much later
 * @param grace how much later than that a row may come
 * @param keepsLeft whether a left row that meets none gives a result
 * @param keepsRight the same of a right row
 */
final case class Pairing(before: Long, after: Long, grace: Long, keepsLeft: Boolean, keepsRight: Boolean) {
  /** How far apart two rows may be, in both directions together. */
  def reach: Long = before + after

  /** Until how long after the latest event time a result may wait; None: none waits. */
  def lasting: Option[Long] = Seq(after -> keepsLeft, before -> keepsRight).collect {
    case (later, true) => later + grace + 1
  }.maxOption
}

/**
 * One side of a join. Its rows are structs in a column of the rows that come; null in those of the other side.
 *
 * @param at the number of that column
 * @param schema what is in it
 * @param timeAt which field is the event time
 * @param streamTimeAt which one says how far its partition's event time had come when the row was read; -1: none, as nothing waits
 * @param later how much later than one of its rows a row of the other side may be
 * @param earlier how much earlier
 * @param keeps whether a row that meets none gives a result
 */
private[keyed] final case class JoinSide(name: String, at: Int, schema: StructType, timeAt: Int, streamTimeAt: Int,
    earlier: Long, later: Long, keeps: Boolean)

/**
 * Rows of two streams that meet: of each row of `child`, the columns that it meets by, then the left side's struct, then the
 * right one's, one of which is null; last, where late records go somewhere, one of these, and then both are.
 *
 * @param time the field of both structs with the event time
 * @param streamTime that with the stream time
 * @param hasLate whether there is a column for late records
 * @param output the fields of both structs, and the late record
 */
final case class KeyedJoin(pairing: Pairing, time: String, streamTime: String, hasLate: Boolean, output: Seq[Attribute], child: LogicalPlan)
  extends UnaryNode {
  // The state has all of both sides, whichever of it a later node uses.
  @transient override lazy val references: AttributeSet = child.outputSet
  override def producedAttributes: AttributeSet = AttributeSet(output)
  override protected def withNewChildInternal(newChild: LogicalPlan): KeyedJoin = copy(child = newChild)

  private[keyed] def sides: (JoinSide, JoinSide) = {
    def side(name: String, at: Int, earlier: Long, later: Long, keeps: Boolean): JoinSide = {
      val schema = child.output(at).dataType.asInstanceOf[StructType]
      JoinSide(name, at, schema, schema.fieldIndex(time), schema.getFieldIndex(streamTime).getOrElse(-1), earlier, later, keeps)
    }
    val n = child.output.length - (if (hasLate) 1 else 0)
    (side("left", n - 2, pairing.before, pairing.after, pairing.keepsLeft),
      side("right", n - 1, pairing.after, pairing.before, pairing.keepsRight))
  }
}

object KeyedJoin {
  /**
   * The frame of all pairs: the left side's columns, then the right one's; null where a side is missing. Last the column for
   * late records, which meet none.
   *
   * @param rows what rows meet by, then each side's columns as a struct, then late records
   * @param pairing [[Pairing]] as JSON
   * @param time the name of each side's column for the event time
   * @param streamTime that of each side's column for stream time, if anything waits for a partner
   * @param leftAlias how expressions call the left side
   * @param hasLate whether there are late records
   */
  def of(rows: DataFrame, pairing: String, time: String, streamTime: String, leftAlias: String, rightAlias: String,
      hasLate: Boolean): DataFrame = {
    val frame = rows.asInstanceOf[Dataset[Row]]
    val plan = frame.queryExecution.analyzed
    val (rest, late) = if (hasLate) (plan.output.init, Seq(plan.output.last)) else (plan.output, Nil)
    val fields = rest.takeRight(2).zip(Seq(leftAlias, rightAlias)).flatMap { case (side, alias) =>
      side.dataType.asInstanceOf[StructType].map { field =>
        AttributeReference(field.name, field.dataType, nullable = true, field.metadata)(qualifier = Seq(alias))
      }
    }
    val rule = Serialization.read[Pairing](pairing)(DefaultFormats, manifest[Pairing])
    val records = late.map(record => AttributeReference(record.name, record.dataType, nullable = true)())
    Dataset.ofRows(frame.sparkSession, KeyedJoin(rule, time, streamTime, hasLate, fields ++ records, plan))
  }
}

/** Plans [[KeyedJoin]] with a shuffle by what rows meet by. */
object KeyedJoinStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case join @ KeyedJoin(pairing, _, _, _, output, child) =>
      val (left, right) = join.sides
      val keys = KeyedJoinExec.keysOf(child.output, left)
      val shuffled = ShuffleExchangeExec(HashPartitioning(keys, SQLConf.get.numShufflePartitions), planLater(child), REPARTITION_BY_NUM)
      Seq(KeyedJoinExec(pairing, left, right, output, shuffled))
    case _ => Nil
  }
}

/**
 * Keeps the rows of both sides in one store. A row goes when no other can meet it any more, by the time of all source
 * partitions ([[EpochTimes]]); what has met none by then gives its result. A row that is late does not come here, or passes.
 */
case class KeyedJoinExec(pairing: Pairing, left: JoinSide, right: JoinSide, output: Seq[Attribute], child: SparkPlan)
  extends UnaryExecNode with KeyedOperator {
  override def producedAttributes: AttributeSet = AttributeSet(output)

  override protected def doExecute(): RDD[InternalRow] = {
    val times = TaskClosing.of(this, getStateInfo, pairing.lasting)
    val (rule, leftSide, rightSide, columns, results) = (pairing, left, right, child.output, output)
    child.execute().mapPartitionsWithStateStore(getStateInfo, KeyedOperator.Unused, KeyedOperator.Unused,
      NoPrefixKeyStateEncoderSpec(KeyedOperator.Unused), session.sessionState, Some(session.streams.stateStoreCoordinator),
      useColumnFamilies = true) { (store, rows) =>
        val keyOf = UnsafeProjection.create(KeyedJoinExec.keysOf(columns, leftSide), columns)
        val states = Seq(leftSide, rightSide).map(new JoinState(store, _, columns.take(leftSide.at).map(_.dataType), rule))
        val late = columns.drop(rightSide.at + 1).map(column => BoundReference(rightSide.at + 1, column.dataType, nullable = true))
        new PairsOfTask(store, rows, keyOf, states.head, states.last, late.headOption, results, times)
      }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): KeyedJoinExec = copy(child = newChild)
}

object KeyedJoinExec {
  // Spark's `=` takes 0.0 and -0.0 for one, and so must what hashes them.
  private[keyed] def keysOf(columns: Seq[Attribute], left: JoinSide): Seq[Expression] =
    columns.take(left.at).map(NormalizeFloatingNumbers.normalize)
}
