// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.lang.ref.SoftReference
import java.util.{LinkedHashMap => JLinkedHashMap}

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state.StateStore

/**
 * The rows of a table that were asked for last, and the keys without a row: reading a row from the store takes as long as all
 * else that a join does with it. They are good as long as this process has had every version of the store; between epochs they
 * are the first to go when memory is short.
 */
private[keyed] final class RowCache {
  import RowCache._

  private var rows: Rows = _
  private var kept = new SoftReference[Rows](null)
  private var bytes = 0L
  private var next = -1L

  /** Begins an epoch. The store may have gone on elsewhere meanwhile. */
  def begin(store: StateStore): Unit = {
    rows = kept.get
    if (rows == null || store.version != next) {
      rows = new Rows(16, 0.75f, true)
      bytes = 0
    }
    next = store.version + 1
  }

  /** Ends the epoch. */
  def end(): Unit = {
    kept = new SoftReference(rows)
    rows = null
  }

  /** Returns the row of a key, null for none; it stays good. */
  def get(key: UnsafeRow, read: => UnsafeRow): UnsafeRow = {
    val found = rows.get(key)
    if (found != null) found.orNull
    else {
      val row = Option(read).map(_.copy())
      val own = key.copy()
      rows.put(own, row)
      bytes += size(own, row)
      while (bytes > MostBytes) {
        val eldest = rows.entrySet.iterator
        val entry = eldest.next()
        bytes -= size(entry.getKey, entry.getValue)
        eldest.remove()
      }
      row.orNull
    }
  }

  /** The same for a row that is about to change: it does not stay here. */
  def take(key: UnsafeRow, read: => UnsafeRow): UnsafeRow = {
    val found = rows.remove(key)
    if (found == null) Option(read).map(_.copy()).orNull
    else {
      bytes -= size(key, found)
      found.orNull
    }
  }

  /** Forgets the row of a key, which is another one now, or none. */
  def forget(key: UnsafeRow): Unit = {
    val found = rows.remove(key)
    if (found != null) bytes -= size(key, found)
  }
}

private object RowCache {
  private type Rows = JLinkedHashMap[UnsafeRow, Option[UnsafeRow]]
  // For each table and state partition.
  val MostBytes = 4L << 20
  // The size of an entry's objects.
  private val Overhead = 200

  private def size(key: UnsafeRow, row: Option[UnsafeRow]): Long = key.getSizeInBytes + row.fold(0)(_.getSizeInBytes) + Overhead
}
