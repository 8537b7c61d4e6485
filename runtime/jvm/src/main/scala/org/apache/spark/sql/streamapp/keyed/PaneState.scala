// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.types.{LongType, StructType}

/**
 * How sliding windows lie in a store: as panes, the records of a group that have one time and count in the same windows.
 *
 * @param group the columns of the group
 * @param values the columns of a buffer
 */
final case class PaneLayout(group: Seq[Attribute], values: StructType) extends WindowRows {
  private val groupSchema = DataTypeUtils.fromAttributes(group)
  private val place = new StructType().add("place", LongType, nullable = false)
  val keys: StructType = StructType(groupSchema ++ place.add("from", LongType, nullable = false))
  /** The entries that say when to look at a group, and for which of its times. */
  val looks: StructType = StructType(new StructType().add("at", LongType, nullable = false) ++ place ++ groupSchema)

  def encoding: KeyStateEncoderSpec = PrefixKeyScanStateEncoderSpec(keys, group.length)
  def groupOf: UnsafeProjection = part(keys, 0 until group.length)
  private[keyed] def pane(pair: UnsafeRowPair): Pane =
    Pane(pair.key.getLong(group.length), pair.key.getLong(group.length + 1), pair.value.copy())
  private[keyed] def groupOfLook: UnsafeProjection = part(looks, 2 until looks.length)

  private def part(schema: StructType, columns: Seq[Int]): UnsafeProjection =
    UnsafeProjection.create(columns.map(i => BoundReference(i, schema(i).dataType, schema(i).nullable)))
}

object PaneLayout {
  /** The column family in which one row says up to which time windows are closed, and panes are gone. */
  val Closed = "closed"
  val Reached: StructType = new StructType().add("closed", LongType, nullable = false).add("gone", LongType, nullable = false)
  private[keyed] val closedEncoding = NoPrefixKeyStateEncoderSpec(KeyedOperator.Unused)

  /** A test for the windows that a store had when it was committed: not those that are closed and not kept, nor those without some panes. */
  def shown(store: CommittedStore, slides: Slides): Slide => Boolean = store.as(closedEncoding, Reached).get(closedKey, Closed) match {
    case null => _ => true
    case row =>
      val (closed, gone) = (slides.lastEnd(row.getLong(0)) - slides.retention, row.getLong(1))
      slide => slide.end > closed && slide.start > gone
  }

  private[keyed] def closedKey: UnsafeRow = UnsafeProjection.create(KeyedOperator.Unused)(InternalRow(0)).copy()
}

/**
 * The records of a group that have one time and count in the same windows.
 *
 * @param from the earliest end of the windows that they count in
 */
private[keyed] final case class Pane(place: Long, from: Long, buffer: UnsafeRow)

private[keyed] object Pane {
  implicit val inOrder: Ordering[Pane] = Ordering.by(pane => (pane.place, pane.from))
}

/** Work that is to be done for a time of a group. */
private[keyed] final case class Look(group: UnsafeRow, at: Long, place: Long)

/** The panes of a task's store, and looks at the times at which their windows close. */
private[keyed] final class PaneState(slides: Slides, layout: PaneLayout) extends RecordWindowState {
  private val looks = "looks"
  private var store: StateStore = _
  private val toKey = UnsafeProjection.create(layout.keys)
  private val toLook = UnsafeProjection.create(layout.looks)
  private val toReached = UnsafeProjection.create(PaneLayout.Reached)
  private val groupOfLook = layout.groupOfLook
  private val bound = TimeOrder.bound(layout.looks)
  private val two = new GenericInternalRow(2)
  private val joined = new JoinedRow
  private val nothing = PaneLayout.closedKey
  private var gone = StreamTimes.Unknown

  override def begin(store: StateStore): Unit = {
    this.store = store
    gone = StreamTimes.Unknown
    store.createColFamilyIfAbsent(looks, layout.looks, KeyedOperator.Unused, TimeOrder.encoding(layout.looks))
    store.createColFamilyIfAbsent(PaneLayout.Closed, KeyedOperator.Unused, PaneLayout.Reached, PaneLayout.closedEncoding)
  }

  /** Returns the panes of a group in the order of their times. */
  def ofGroup(group: UnsafeRow): IndexedSeq[Pane] =
    store.prefixScan(group, StateStore.DEFAULT_COL_FAMILY_NAME)
      .map(layout.pane).toIndexedSeq.sorted

  def put(group: UnsafeRow, place: Long, from: Long, buffer: UnsafeRow): Unit =
    store.put(key(group, place, from), buffer, StateStore.DEFAULT_COL_FAMILY_NAME)

  def remove(group: UnsafeRow, pane: Pane): Unit = {
    store.remove(key(group, pane.place, pane.from), StateStore.DEFAULT_COL_FAMILY_NAME)
    gone = math.max(gone, pane.place)
  }

  /** Notes the time up to which windows are closed. To be called when panes have been removed. */
  def noteClosed(closed: Long): Unit = {
    val before = Option(store.get(nothing, PaneLayout.Closed)).fold(StreamTimes.Unknown)(_.getLong(1))
    store.put(nothing, toReached(InternalRow(closed, math.max(before, gone))), PaneLayout.Closed)
  }

  def look(group: UnsafeRow, at: Long, place: Long): Unit = {
    two.update(0, at)
    two.update(1, place)
    store.put(toLook(joined(two, group)), nothing, looks)
  }

  /** Removes the looks that are due, the earliest first; each is good until the next one. */
  def due(before: Long, after: Long): Iterator[Look] =
    if (after == before) Iterator.empty
    else {
      val last = slides.lastEnd(after)
      store.rangeScan(from(before), Some(bound(last + 1)), looks).takeWhile(_.key.getLong(0) <= last).map { pair =>
        store.remove(pair.key, looks)
        Look(groupOfLook(pair.key), pair.key.getLong(0), pair.key.getLong(1))
      }
    }

  /** The time of the first look, with time at `closed`; Long.MaxValue when there is none. */
  override def earliest(closed: Long): Long = {
    val scan = store.rangeScan(from(closed), None, looks)
    try if (scan.hasNext) scan.next().key.getLong(0) + slides.grace + 1 else Long.MaxValue
    finally scan.close()
  }

  private def from(closed: Long): Option[UnsafeRow] = Option.when(closed != StreamTimes.Unknown)(bound(slides.lastEnd(closed)))

  private def key(group: UnsafeRow, place: Long, from: Long): UnsafeRow = {
    two.update(0, place)
    two.update(1, from)
    toKey(joined(group, two))
  }
}
