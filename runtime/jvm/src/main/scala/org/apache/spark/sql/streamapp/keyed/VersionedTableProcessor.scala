// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, GenericInternalRow, JoinedRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.{NoPrefixKeyStateEncoderSpec, StateStore}
import org.apache.spark.sql.types.{LongType, StructField, StructType}

/**
 * Keeps the rows of a table, and their earlier versions within its history. The change of a key with the latest event time counts, as
 * in a versioned KTable (KIP-889): a change that comes late alters an earlier version, and is not sent.
 *
 * The store has the current rows, as that of a table without history. Earlier versions, and deletions, lie in a column family by key
 * and time. Each version knows the time of the version before it, so that a lookup goes back from the latest one. Versions that time
 * has made unreachable are found as expired rows are; a way back that ends at one of them has nothing behind it.
 */
private[keyed] final class VersionedTableProcessor(node: VersionedTable, task: TaskAtWork) extends StoredRows(task) {
  import Versions._

  private val table = node.table
  private val keyOf = table.key.projection
  private val valueOf = table.value.projection
  private val Seq(ofNew, ofFound, ofVersion) = Seq.fill(3)(table.row.projection)
  private val both = new JoinedRow
  private val rows = new RowCache
  private val reach = node.history.open
  private var store: StateStore = _

  private val toRow = UnsafeProjection.create(node.rowSchema)
  private val toVersion = UnsafeProjection.create(node.versionSchema)
  private val toVersionKey = UnsafeProjection.create(node.history.keys)
  private val toValue = columns(node.rowSchema.init)
  private val toTime = UnsafeProjection.create(Time)
  private val (previousTime, versionTime, deletedTime) = (new GenericInternalRow(1), new GenericInternalRow(1), new GenericInternalRow(1))
  private val (withPrevious, withTime) = (new JoinedRow, new JoinedRow)
  private val version = new GenericInternalRow(3)
  private val keyOfVersion = columns(node.history.keys.init)

  override def begin(): Unit = {
    store = task.store(table.name)
    rows.begin(store)
    reach.begin(store)
    store.createColFamilyIfAbsent(Family, node.history.keys, node.versionSchema, NoPrefixKeyStateEncoderSpec(node.history.keys))
    val keys = StructType(node.history.keys.init)
    store.createColFamilyIfAbsent(Deleted, keys, Time, NoPrefixKeyStateEncoderSpec(keys))
  }

  override def end(): Unit = rows.end()

  override def receive(none: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit = {
    val key = keyOf(row)
    if (!NoKey(key)) {
      val value = if (row.getBoolean(table.deletedAt)) null else valueOf(row)
      latestOf(key) match {
        case Some(latest) if latest.time > time => insert(key, time, value, latest)
        case latest => append(key, time, value, latest)
      }
    }
  }

  /** Adds a version that is its key's row from its time on. */
  private def append(key: UnsafeRow, time: Long, value: UnsafeRow, latest: Option[Version]): Unit = {
    val before = latest.filterNot(_.isDeletion).map(_ => forwarded(key)).orNull
    latest.filter(last => last.time < time && !last.isDeletion).foreach(put(key, _, until = time))
    // It replaces a version of the same time. A deletion that hides nothing from this record may still hide versions that others can reach.
    val previous = latest.fold(deletionOf(key).filter(_ < time))(last => if (last.time < time) Some(last.time) else last.previous)
    if (value != null || before != null) remember(key, before)
    rows.forget(key)
    if (value == null) {
      if (before != null) store.remove(key)
      put(key, Version(time, previous, null), until = time)
      deletedTime.update(0, time)
      store.put(key, toTime(deletedTime), Deleted)
      if (before != null) forward(key, null, before, time)
    } else {
      if (before == null) deletionOf(key).foreach { at =>
        store.remove(key, Deleted)
        if (at == time) store.remove(versionKey(key, at), Family)
      }
      store.put(key, stored(value, previous))
      forward(key, ofNew(both(key, value)), before, time)
    }
  }

  /** Adds a version between others. One that may lie among forgotten versions is left out, whether they were forgotten or not. */
  private def insert(key: UnsafeRow, time: Long, value: UnsafeRow, latest: Version): Unit = if (!isBeyond(time, task.now)) {
    var next = latest
    var found = versionBefore(key, next)
    while (found.exists(_.time > time)) {
      next = found.get
      found = versionBefore(key, next)
    }
    val isThere = found.exists(_.time == time)
    // The time that the next version names as that of the one before it may be any time, if that version was forgotten.
    val previous = (if (isThere) found.get else next).previous.filter(_ < time)
    put(key, Version(time, previous, value), until = next.time)
    if (!isThere) {
      if (next eq latest) relink(key, latest, time) else put(key, next.copy(previous = Some(time)), until = untilOf(key, next.time))
      found.filterNot(_.isDeletion).foreach(put(key, _, until = time))
    }
  }

  private def relink(key: UnsafeRow, latest: Version, previous: Long): Unit =
    if (latest.isDeletion) put(key, latest.copy(previous = Some(previous)), until = latest.time)
    else store.put(key, stored(latest.value, Some(previous)))

  /**
   * Stores a version beside the current rows. A deletion is of no use when it is beyond the history: a missing version means a deletion
   * too, and older changes do not come in any more.
   */
  private def put(key: UnsafeRow, of: Version, until: Long): Unit = {
    val lasts = if (of.isDeletion) of.time else until
    version.update(0, lasts)
    version.update(1, of.previous.map(Long.box).orNull)
    version.update(2, of.value)
    val at = versionKey(key, of.time).copy()
    store.put(at, toVersion(version), Family)
    reach.note(at, lasts, None)
  }

  /** The latest version of a key, also a deletion as long as it is within reach; its value stays good. */
  private def latestOf(key: UnsafeRow): Option[Version] = {
    val found = store.get(key)
    if (found != null) Some(Version(found.getLong(0), timeAt(found, node.rowSchema.length - 1), toValue(found).copy()))
    else deletionOf(key).filterNot(reach.isOver(_, task.now)).flatMap(versionOf(key, _))
  }

  private def deletionOf(key: UnsafeRow): Option[Long] = Option(store.get(key, Deleted)).map(_.getLong(0))

  private def versionBefore(key: UnsafeRow, version: Version): Option[Version] = version.previous.flatMap(versionOf(key, _))

  private def versionOf(key: UnsafeRow, time: Long): Option[Version] = {
    val found = store.get(versionKey(key, time), Family)
    Option.when(found != null) {
      val value = if (found.isNullAt(2)) null else found.getStruct(2, node.valueWidth).copy()
      Version(time, timeAt(found, 1), value)
    }
  }

  private def untilOf(key: UnsafeRow, time: Long): Long = store.get(versionKey(key, time), Family).getLong(0)

  private def versionKey(key: UnsafeRow, time: Long): UnsafeRow = {
    versionTime.update(0, time)
    toVersionKey(withTime(key, versionTime))
  }

  private def stored(value: InternalRow, previous: Option[Long]): UnsafeRow = {
    previousTime.update(0, previous.map(Long.box).orNull)
    toRow(withPrevious(value, previousTime))
  }

  private def columns(fields: Seq[StructField]): UnsafeProjection =
    UnsafeProjection.create(fields.zipWithIndex.map { case (field, i) => BoundReference(i, field.dataType, field.nullable) })

  private def timeAt(row: InternalRow, at: Int): Option[Long] = if (row.isNullAt(at)) None else Some(row.getLong(at))

  override def get(key: UnsafeRow): InternalRow = forwarded(key)

  override def forwarded(key: UnsafeRow): InternalRow = rows.get(key, {
    val found = store.get(key)
    if (found == null) null else ofFound(both(key, found))
  })

  override def asOf(key: UnsafeRow, time: Long, now: Long): InternalRow = {
    val row = forwarded(key)
    if (row != null && row.getLong(table.timeAt) <= time) row
    else if (isBeyond(time, now)) null
    else {
      val latest = if (row != null) latestOf(key) else deletionOf(key).flatMap(versionOf(key, _))
      var found = latest
      while (found.exists(_.time > time)) found = versionBefore(key, found.get)
      found.filterNot(_.isDeletion).map(of => ofVersion(both(key, of.value))).orNull
    }
  }

  override def isBeyond(time: Long, now: Long): Boolean = now != StreamTimes.Unknown && time < now - reach.ttl

  override def forgets: Boolean = true

  override def forget(closing: Closing, fresh: Boolean): Unit =
    reach.over(closing, fresh, key => Option(store.get(key, Family)).map(_.getLong(0))).foreach { at =>
      val time = at.getLong(node.history.keys.length - 1)
      val key = keyOfVersion(at)
      if (deletionOf(key).contains(time)) store.remove(key, Deleted)
      store.remove(at, Family)
    }
}

private object Versions {
  val Family = "versions"
  val Deleted = "deleted"
  val Time: StructType = new StructType().add("time", LongType, nullable = false)

  /**
   * A key's row from a time on.
   *
   * @param previous the time of the version before; None where there was none within reach
   * @param value    null for a deletion
   */
  final case class Version(time: Long, previous: Option[Long], value: UnsafeRow) {
    def isDeletion: Boolean = value == null
  }
}
