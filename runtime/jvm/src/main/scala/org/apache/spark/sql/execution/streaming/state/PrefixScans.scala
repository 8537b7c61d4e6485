// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.streaming.state

import java.nio.ByteBuffer

import scala.collection.mutable.ArrayBuffer

import org.rocksdb.{DirectSlice, ReadOptions, RocksDB => NativeRocksDB, RocksIterator}

import org.apache.spark.util.NextIterator

/**
 * Looks up the rows of one key after another, with native iterators that stay until the epoch ends: making one costs as much as
 * all else of a look. Spark makes one for each look, and keeps it until the task ends.
 *
 * For one thread. The next look sees rows that are changed meanwhile.
 *
 * @param skipped how many bytes of a stored key come before the part that its reader knows
 */
private[state] final class PrefixScans(skipped: Int) {
  private val free = ArrayBuffer[Cursor]()
  private val all = ArrayBuffer[Cursor]()

  /** Returns all rows whose stored keys begin with `prefix`, each good until the next. */
  def scan(db: NativeRocksDB, prefix: Array[Byte], end: Array[Byte]): NextIterator[ByteArrayPair] = {
    val cursor = if (free.isEmpty) opened(db) else free.remove(free.length - 1)
    cursor.seek(prefix, end)
    new NextIterator[ByteArrayPair] {
      override protected def getNext(): ByteArrayPair = {
        finished = !cursor.isValid
        if (finished) null else cursor.take()
      }
      override protected def close(): Unit = if (!cursor.closed) free += cursor
    }
  }

  /** Closes the iterators, before the database goes or is written to disk: an iterator holds all files that it has seen. */
  def close(): Unit = {
    all.foreach(_.close())
    all.clear()
    free.clear()
  }

  private def opened(db: NativeRocksDB): Cursor = {
    val cursor = new Cursor(db)
    all += cursor
    cursor
  }

  private final class Cursor(db: NativeRocksDB) {
    // RocksDB itself compares each step with the bound, which is in this buffer: so a look does not pass the deletions behind its
    // last row.
    private var buffer = ByteBuffer.allocateDirect(0)
    private var bound: DirectSlice = _
    private var options: ReadOptions = _
    private var rows: RocksIterator = _
    private val pair = new ByteArrayPair
    var closed = false

    def seek(prefix: Array[Byte], end: Array[Byte]): Unit = {
      val known = rows != null && end.length <= buffer.capacity
      if (!known) {
        release()
        buffer = ByteBuffer.allocateDirect(math.max(128, 2 * end.length))
      }
      buffer.clear().put(end)
      if (known) {
        bound.setLength(end.length)
        rows.refresh()
      } else {
        bound = new DirectSlice(buffer, end.length)
        options = new ReadOptions().setIterateUpperBound(bound)
        rows = db.newIterator(options)
      }
      rows.seek(prefix)
    }

    def isValid: Boolean = !closed && rows.isValid

    def take(): ByteArrayPair = {
      val key = rows.key()
      pair.set(if (skipped == 0) key else java.util.Arrays.copyOfRange(key, skipped, key.length), rows.value())
      rows.next()
      pair
    }

    def close(): Unit = {
      closed = true
      release()
    }

    private def release(): Unit = if (rows != null) {
      rows.close()
      options.close()
      bound.close()
      rows = null
    }
  }
}
