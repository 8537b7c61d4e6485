// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, JoinedRow, UnsafeRow}
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.execution.streaming.state.StateStore

/**
 * The state of a left table's row at a place. The place is the key of the right table that the row names. The reports of one place
 * about a row come in order; of the reports of several places, the highest version counts.
 */
private[keyed] object Move {
  /** The row is here, and was here before, or nowhere. */
  val Here = 0
  /** The row is here, and has come from another place, which reports [[Left]] with the same version. */
  val Moved = 1
  /** The row has left for another place: this is the last report of that stay. */
  val Left = 2
  /** The row is deleted. */
  val Gone = 3
  /** The number of fields of the column with the move: the version, and one of the above. */
  val Width = 2
}

/**
 * Keeps rows of the left table at the right table's row that they name, and sends the result of each, as records.
 *
 * @param left   rows with a [[Move]]
 * @param foreign the right table's key, over a left row
 * @param key    the key of a left row in the store; begins with `foreign`
 * @param value  the columns that the store keeps of a left row
 * @param row    the left row, over a value
 * @param result the result, over both rows; null where there is no right one
 * @param none   the record that says that the left row has no result, over both rows
 * @param moveAt the column of a left row with its move
 * @param timeAt the column of result and none with the event time
 */
private[keyed] final case class ForeignRows(left: Int, right: Int, name: String, foreign: RowsOf, key: RowsOf, value: RowsOf,
    row: RowsOf, result: RowsOf, none: RowsOf, moveAt: Int, timeAt: Int, rightSide: Side, keepsLeft: Boolean) extends TaskNode {
  override def inputs: Seq[Int] = Seq(left, right)
  override def store: Option[String] = Some(name)
  override def open(task: TaskAtWork): Processor = new ForeignRowsProcessor(this, task)
}

/**
 * Keeps the latest result of each row.
 *
 * @param input the reports of the places: rows with a [[Move]]; a row for which column `deletedAt` is true has no result
 * @param value the columns that the store keeps, over such a row and the state
 * @param again the same columns with a new state, over the stored columns and the state
 * @param row   the result that goes on, over key and value
 */
private[keyed] final case class ForeignResults(input: Int, name: String, key: RowsOf, value: RowsOf, again: RowsOf, row: RowsOf,
    deletedAt: Int, moveAt: Int, timeAt: Int) extends TaskNode {
  override def inputs: Seq[Int] = Seq(input)
  override def store: Option[String] = Some(name)
  override def open(task: TaskAtWork): Processor = new ForeignResultsProcessor(this, task)
}

/** A left row that names nothing is not stored: nothing can change for it here. */
private[keyed] final class ForeignRowsProcessor(node: ForeignRows, task: TaskAtWork) extends Processor {
  private var store: StateStore = _
  private val foreignOf = node.foreign.projection
  private val keyOf = node.key.projection
  private val valueOf = node.value.projection
  private val rowOf = node.row.projection
  private val (resultOf, noneOf) = (node.result.projection, node.none.projection)
  private val both = new JoinedRow
  private val noRight = new GenericInternalRow(node.rightSide.width)

  override def begin(): Unit = store = task.store(node.name)

  private val fromLeft: Port = (_, row, _, time) => {
    val foreign = foreignOf(row)
    val named = !foreign.anyNull
    val other = if (named) task.processor(node.right).forwarded(foreign) else null
    row.getStruct(node.moveAt, Move.Width).getInt(1) match {
      case Move.Here | Move.Moved =>
        if (named) store.put(keyOf(row), valueOf(row))
        answer(row, other, time)
      case Move.Left | Move.Gone =>
        if (named) store.remove(keyOf(row))
        none(row, other, time)
    }
  }

  private val fromRight: Port = (key, row, old, time) => {
    val waiting = store.prefixScan(key)
    try waiting.foreach { pair =>
      val left = rowOf(pair.value)
      if (row != null || node.keepsLeft) answer(left, row, time) else none(left, old, time)
    } finally waiting.close()
  }

  override def port(number: Int): Port = if (number == 0) fromLeft else fromRight

  override def receive(key: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit =
    throw new UnsupportedOperationException("rows come by one of two ports")

  private def answer(left: InternalRow, right: InternalRow, time: Long): Unit =
    if (right == null && !node.keepsLeft) none(left, right, time)
    else forward(null, resultOf(both(left, if (right == null) noRight else right)), null, time)

  // A result goes when one of its rows does: at the latest of the times of both rows and of the change.
  private def none(left: InternalRow, right: InternalRow, time: Long): Unit = {
    val record = noneOf(both(left, if (right == null) noRight else right))
    val at = math.max(time, record.getLong(node.timeAt))
    record.setLong(node.timeAt, if (right == null) at else math.max(at, right.getLong(node.rightSide.timeAt)))
    forward(null, record, null, time)
  }
}

/**
 * Drops what a place reports of a row that has left it. Only reports from before the row left can come late. The place that the row
 * left and the place that it came to both report the move, with one version: as long as one of the two reports is awaited, the highest
 * version is remembered, also of a row without a result. When none is awaited, no older report can come, and a row without a result is
 * forgotten.
 */
private[keyed] final class ForeignResultsProcessor(node: ForeignResults, task: TaskAtWork) extends StoredRows(task) {
  import ForeignResultsProcessor._

  private var store: StateStore = _
  private val keyOf = node.key.projection
  private val valueOf = node.value.projection
  private val againOf = node.again.projection
  private val Seq(ofNew, ofOld, ofFound) = Seq.fill(3)(node.row.projection)
  private val (both, withState) = (new JoinedRow, new JoinedRow)
  private val state = new GenericInternalRow(Width)

  override def begin(): Unit = store = task.store(node.name)

  override def receive(none: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit = {
    val key = keyOf(row)
    val stored = store.get(key)
    val move = row.getStruct(node.moveAt, Move.Width)
    val (version, what) = (move.getLong(0), move.getInt(1))
    val known = if (stored == null) Unknown else stored.getLong(Version)
    val was = stored != null && stored.getBoolean(There)
    val waited = if (stored == null) NoOnes else stored.getArray(Awaited).toLongArray()
    val awaited = what match {
      case Move.Moved => afterReport(waited, version)
      case Move.Left => afterReport(waited, -version)
      case _ => waited
    }
    val counts = what != Move.Left && version >= known
    val is = if (counts) !row.getBoolean(node.deletedAt) else was
    // The store's row is good until the next one is read, perhaps by a reader of this change.
    val before = if (was && counts) ofOld(both(key, stored)).copy() else null
    var value: UnsafeRow = null
    if (!is && awaited.isEmpty) { if (stored != null) store.remove(key) }
    else if (counts || !(awaited sameElements waited)) {
      state.update(Version, if (counts) version else known)
      state.update(There, is)
      state.update(Awaited, new GenericArrayData(awaited))
      value = if (counts || stored == null) valueOf(withState(row, state)) else againOf(withState(stored, state))
      store.put(key, value)
    }
    if (counts) remember(key, before)
    if (counts && (is || was)) forward(key, if (is) ofNew(both(key, value)) else null, before, row.getLong(node.timeAt))
  }

  override def get(key: UnsafeRow): InternalRow = {
    val stored = store.get(key)
    if (stored == null || !stored.getBoolean(There)) null else ofFound(both(key, stored))
  }

  /** Returns the awaited ends without the other end of the same move; if that has not been reported, with this end. */
  private def afterReport(awaited: Array[Long], end: Long): Array[Long] =
    if (awaited.contains(-end)) awaited.filter(_ != -end) else awaited :+ end
}

private[keyed] object ForeignResultsProcessor {
  // The first columns of a stored value: its version, whether there is a result, and the ends of moves that were reported alone.
  private val Version = 0
  private val There = 1
  private val Awaited = 2
  private val Width = 3
  private val Unknown = -1L
  private val NoOnes = Array.empty[Long]
}
