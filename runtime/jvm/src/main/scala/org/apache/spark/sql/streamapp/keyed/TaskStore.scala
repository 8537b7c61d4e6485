// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, BoundReference, Expression, NamedExpression, UnsafeRow}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.streaming.state.{KeyStateEncoderSpec, NoPrefixKeyStateEncoderSpec}
import org.apache.spark.sql.types.StructType

/**
 * A store of a keyed task.
 *
 * @param name the store's name in the manifest
 * @param hasFamilies whether its processor keeps more beside the rows, in column families of its own
 * @param shown the rows that questions are answered from; None where nobody asks
 */
final case class TaskStore(name: String, keySchema: StructType, valueSchema: StructType, encoding: KeyStateEncoderSpec,
    hasFamilies: Boolean, shown: Option[ShownRows])

object TaskStore {
  /** A store whose rows are found by their whole key. */
  def byKey(name: String, key: StructType, value: StructType, hasFamilies: Boolean = false, shown: Option[ShownRows] = None): TaskStore =
    TaskStore(name, key, value, NoPrefixKeyStateEncoderSpec(key), hasFamilies, shown)
}

/**
 * The rows of a store, for questions.
 *
 * @param layout how the rows lie
 * @param answers the columns of an answer, over the columns of the layout
 * @param answered their names: the key's are `__key_0`, `__key_1`, …, then come the values
 */
final case class ShownRows(layout: StoredLayout, private val answers: RowsOf, private val answered: Seq[String]) {
  /** The columns of an answer over these columns, which are those of the layout. */
  def answersOver(columns: Seq[Attribute]): Seq[NamedExpression] = answers.values.zip(answered).map { case (value, name) =>
    Alias(over(value, columns), name)()
  }

  /** The condition of the rows that are answers; None for all rows. */
  def answering(columns: Seq[Attribute]): Option[Expression] = answers.condition.map(over(_, columns))

  private def over(expression: Expression, columns: Seq[Attribute]): Expression =
    expression.transform { case BoundReference(place, _, _) => columns(place) }
}

/** How rows lie in a store, for readers beside the task. */
private[keyed] sealed trait StoredLayout extends Serializable {
  /** The columns of the key, without a window: they decide the task. */
  def named: Seq[Attribute]
  /** The columns of the rows that `scan` finds. */
  def columns: Seq[Attribute]
  /** @param wanted the key that the question asks for; None for all keys */
  def scan(wanted: Option[UnsafeRow]): StoredScan
}

/** Rows by their keys. */
private[keyed] final case class RowLayout(named: Seq[Attribute], values: Seq[Attribute]) extends StoredLayout {
  override def columns: Seq[Attribute] = named ++ values
  override def scan(wanted: Option[UnsafeRow]): StoredScan = AggregateScan(GroupKeys(named, None), values, named, wanted)
}

/** Buffers by their groups, and windows. */
private[keyed] final case class GroupLayout(keys: GroupKeys, bound: BoundAggregates, columns: Seq[Attribute]) extends StoredLayout {
  override def named: Seq[Attribute] = keys.named
  override def scan(wanted: Option[UnsafeRow]): StoredScan =
    FinishedScan(AggregateScan(keys, DataTypeUtils.toAttributes(bound.bufferSchema), named, wanted), bound)
}

/** Rows that are kept for their groups. */
private[keyed] final case class KeptLayout(named: Seq[Attribute], kept: KeptRows, columns: Seq[Attribute]) extends StoredLayout {
  override def scan(wanted: Option[UnsafeRow]): StoredScan = KeptScan(kept, wanted)
}

/** Windows that records have made, of groups. */
private[keyed] final case class RecordWindowLayout(rule: WindowRule, named: Seq[Attribute], bound: BoundAggregates, results: Seq[Attribute])
  extends StoredLayout {
  override def columns: Seq[Attribute] = RecordWindows.span ++ named ++ results
  override def scan(wanted: Option[UnsafeRow]): StoredScan = rule match {
    case _: Sessions => SessionScan(SessionLayout(named, bound.bufferSchema), bound, wanted)
    case slides: Slides => SlideScan(slides, PaneLayout(named, bound.bufferSchema), bound, wanted)
  }
}
