// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.util.ArrayDeque

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._

/**
 * Joins two streams: each row meets the rows of the other side that are there, and stays for those that come later. So each pair
 * is given once. When their time is over, the rows without a match go on.
 *
 * A row without a match gives its result when time has passed the last moment at which another row could meet it. So a row
 * that is read later than that in its partition does not meet it, although it is still there for others: the pairs do not
 * depend on when results were given.
 */
private[keyed] final class PairProcessor(node: Pairs, task: TaskAtWork) extends Processor {
  private val lag = task.graph.heldBefore(node)
  private val Seq(left, right) = Seq(node.left, node.right).map(new End(_))
  private val resultOf = node.result.projection
  private val both = new JoinedRow
  /** The results of the row under way, or of the rows that stay alone: there may be very many, so they are made one by one. */
  private var results: Iterator[InternalRow] = Iterator.empty
  /** The results of rows that have come with it: of a row that is on both sides, or of rows that were held back together. */
  private val ready = new ArrayDeque[InternalRow]()

  /** One side at work. */
  private final class End(input: PairInput) extends Port {
    val state = new JoinState(input.side, node.key.map(_.dataType), node.pairing)
    val missing: InternalRow = state.missing
    private val rowOf = input.row.projection
    private val keyOf = input.key.projection
    private val late = new LateRows(task, input.late)
    private val streamTime = new GenericInternalRow(1)
    private val withTime = new JoinedRow().withRight(streamTime)

    override def receive(key: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit =
      if (!row.getBoolean(input.deletedAt)) {
        val reached = task.reached(lag)
        if (state.lastMoment(time) < reached) late.leave(row, time - input.side.earlier, time + input.side.later, reached)
        else {
          streamTime.update(0, reached)
          meet(this, keyOf(row), rowOf(withTime.withLeft(row)))
        }
      }
  }

  override def begin(): Unit = for (end <- Seq(left, right)) end.state.begin(task.store(node.name))

  override def port(number: Int): Port = if (number == 0) left else right

  override def receive(key: UnsafeRow, row: InternalRow, old: InternalRow, time: Long): Unit =
    throw new IllegalStateException("rows come by one of two ports")

  private def meet(mine: End, key: UnsafeRow, row: UnsafeRow): Unit = {
    // The row before must not meet the row that this one stores.
    while (results.hasNext) ready.add(results.next().copy())
    results =
      if (key.anyNull) if (mine.state.side.keeps) Iterator.single(alone(mine, row)) else Iterator.empty // null equals nothing
      else {
        val others = if (mine eq left) right else left
        val place = mine.state.add(key, row)
        var met = false
        others.state.ofKey(key).filter(pair => mine.state.meets(row, others.state, pair.value)).map { pair =>
          met = true
          others.state.noMoreAlone(pair.key)
          if (mine eq left) both(row, pair.value) else both(pair.value, row)
        } ++ {
          if (!met) mine.state.waits(place)
          Iterator.empty
        }
      }
  }

  private def alone(mine: End, row: InternalRow): InternalRow = if (mine eq left) both(row, right.missing) else both(left.missing, row)

  override def gathers: Boolean = true
  override def holds: Boolean = !ready.isEmpty || results.hasNext
  // The results go on before another row comes that they could meet.
  override def isFull: Boolean = holds
  override def letGo(): Unit = {
    val result = resultOf(if (ready.isEmpty) results.next() else ready.poll())
    forward(null, result, null, result.getLong(node.timeAt))
  }

  override def forgets: Boolean = true
  // The rows without a match look up rows that other processors are about to forget.
  override def stage: Int = TaskAtWork.Records

  override def forget(closing: Closing, fresh: Boolean): Unit = {
    val Closing(before, after) = closing.behind(lag)
    val ends = Seq(left, right)
    results = ends.iterator.flatMap(end => end.state.over(before, after).map(alone(end, _))) ++ {
      ends.foreach(_.state.remove(before, after))
      Iterator.empty
    }
  }

  override def due: Long =
    StreamTimes.dueBehind(Seq(left, right).map(_.state.earliest(StreamTimes.behind(task.now, lag))).min, lag)
}
