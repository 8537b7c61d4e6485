// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.json4s.DefaultFormats
import org.json4s.jackson.Serialization

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.streaming.state.{KeyStateEncoderSpec, NoPrefixKeyStateEncoderSpec}
import org.apache.spark.sql.types.{LongType, StructType, TimestampType}

/**
 * The windows of an aggregation; times are in microseconds.
 *
 * @param advance how often one starts
 * @param retention how long windows stay in the state after they close
 * @param isFinal whether a window gives one result when it closes, and none before
 */
final case class Windows(size: Long, advance: Long, grace: Long, retention: Long, isFinal: Boolean) {
  /** The starts of the windows that this time is in, the latest first. */
  def startsOf(time: Long): Iterator[Long] = Iterator.iterate(Math.floorDiv(time, advance) * advance)(_ - advance).takeWhile(_ > time - size)

  /** Whether a time may be in several windows. */
  def overlap: Boolean = advance < size

  /** The start of the last window that is over when time has come that far. */
  def lastStart(closed: Long): Long = closed - lasting

  /** How long after its start a window is open. */
  def lasting: Long = size + grace
}

object Windows {
  /** The key in a column's metadata by which the manifest's window comes here. */
  val Metadata = "streamapp.windows"

  def of(groups: Seq[Attribute]): Option[Windows] =
    groups.headOption.map(_.metadata).filter(_.contains(Metadata)).map(metadata => read(metadata.getString(Metadata)))

  /** Reads windows from JSON. */
  def read(text: String): Windows = Serialization.read[Windows](text)(DefaultFormats, manifest[Windows])
}

/**
 * How the groups of an aggregation are keys of its state: as they are; or, where the first column is a window, with the
 * window's start in its place. Then the state is in the order of the windows, and those that are over come first.
 *
 * The last column may be a late record ([[GroupKeys.Late]]): a row that has one belongs to no group, and not to the state.
 *
 * @param groups the columns of the group
 */
final case class GroupKeys(groups: Seq[Attribute], windows: Option[Windows]) {
  val late: Option[Attribute] = groups.lastOption.filter(_.metadata.contains(GroupKeys.Late))
  private val kept = groups.dropRight(late.size)

  /** The columns of the group, without the window. */
  def named: Seq[Attribute] = if (windows.isEmpty) kept else kept.tail

  val schema: StructType = windows match {
    case None => DataTypeUtils.fromAttributes(kept)
    case Some(_) => StructType(new StructType().add("start", LongType, nullable = false) ++ DataTypeUtils.fromAttributes(kept.tail))
  }

  def encoding: KeyStateEncoderSpec =
    if (windows.isEmpty) NoPrefixKeyStateEncoderSpec(schema) else TimeOrder.encoding(schema)

  /** The key of a row that has the group among these columns. */
  def ofRow(columns: Seq[Attribute]): UnsafeProjection = windows match {
    case None => UnsafeProjection.create(kept, columns)
    case Some(_) =>
      val start = PreciseTimestampConversion(GetStructField(groups.head, 0), TimestampType, LongType)
      UnsafeProjection.create(start +: kept.tail, columns)
  }

  /** The group of a key. */
  def toGroup: UnsafeProjection = {
    val columns = schema.fields.zipWithIndex.map { case (field, i) => BoundReference(i, field.dataType, field.nullable) }.toSeq
    val noLate = late.map(record => Literal(null, record.dataType))
    windows match {
      case None => UnsafeProjection.create(columns ++ noLate)
      case Some(windows) =>
        def time(value: Expression) = PreciseTimestampConversion(value, LongType, TimestampType)
        val window = CreateNamedStruct(Seq(
          Literal("start"), time(columns.head), Literal("end"), time(Add(columns.head, Literal(windows.size)))))
        UnsafeProjection.create((window +: columns.tail) ++ noLate)
    }
  }
}

object GroupKeys {
  /** The key in the metadata of the column that has a late record. */
  val Late = "streamapp.late"
}
