// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.streaming.state.StateStore

/**
 * The work of one task of [[RecordWindowsExec]]: what it keeps of a group is read once, changed by the group's rows, and written
 * back. Behind the groups come the windows that close.
 *
 * @param record the columns of a late record
 * @param recordAt where a row has them; those of its group are the first, then come event time and stream time
 */
private[keyed] final class GroupsOfTask(store: StateStore, incoming: Iterator[InternalRow], windows: WindowsOfTask, columns: Seq[Attribute],
    record: Seq[Attribute], recordAt: Int, times: TaskClosing) extends Iterator[InternalRow] {

  private val rows = incoming.buffered
  private val groupOf = UnsafeProjection.create(
    columns.zipWithIndex.map { case (column, i) => BoundReference(i, column.dataType, column.nullable) })
  private val recordOf = UnsafeProjection.create(
    record.zipWithIndex.map { case (column, i) => BoundReference(recordAt + i, column.dataType, column.nullable) })
  private var results: Iterator[InternalRow] = Iterator.empty
  private var closing = false
  private var committed = false

  override def hasNext: Boolean = {
    while (!results.hasNext && rows.hasNext) results = ofGroup()
    if (!results.hasNext && !closing) {
      closing = true
      val reached = times.ask()
      results = windows.close(reached, times.fresh) ++ {
        times.due.add(windows.earliest(reached.after))
        Iterator.empty
      }
    }
    val more = results.hasNext
    if (!more && !committed) {
      store.commit()
      committed = true
    }
    more
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    results.next()
  }

  private def ofGroup(): Iterator[InternalRow] = {
    val group = groupOf(rows.head).copy()
    val opened = windows.open(group)
    val late = Iterator.continually(()).takeWhile(_ => rows.hasNext && groupOf(rows.head) == group).map(_ => rows.next())
      .filterNot(opened.add).map(row => windows.late(group, recordOf(row)))
    late ++ opened.save()
  }
}
