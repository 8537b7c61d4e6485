// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.{KeyStateEncoderSpec, RangeKeyScanStateEncoderSpec}
import org.apache.spark.sql.types.StructType

/** State whose keys begin with a time, and lie in the order of their times. */
private[keyed] object TimeOrder {
  def encoding(keys: StructType): KeyStateEncoderSpec = RangeKeyScanStateEncoderSpec(bounded(keys), Seq(0))

  /** A bound for a scan: a key of this time, behind all of earlier times and before all of later ones. */
  def bound(keys: StructType): Long => UnsafeRow = {
    val project = UnsafeProjection.create(bounded(keys))
    val row = new GenericInternalRow(keys.length)
    time => {
      row.update(0, time)
      project(row: InternalRow).copy()
    }
  }

  // A bound has nothing behind its time. Spark's projections rely on a column that is never null: after a null, interpreted ones would
  // keep it null in the keys that follow, and generated ones would fail.
  private def bounded(keys: StructType): StructType = StructType(keys.head +: keys.tail.map(_.copy(nullable = true)))
}
