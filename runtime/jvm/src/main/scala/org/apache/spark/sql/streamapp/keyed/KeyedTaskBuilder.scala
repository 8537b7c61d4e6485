// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import scala.collection.mutable

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.BindReferences.bindReference
import org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers
import org.apache.spark.sql.catalyst.planning.PhysicalAggregation
import org.apache.spark.sql.catalyst.plans.logical.Project
import org.apache.spark.sql.classic.ClassicConversions.castToImpl
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution.streaming.state.{PrefixKeyScanStateEncoderSpec, RangeKeyScanStateEncoderSpec}
import org.apache.spark.sql.types.{DataType, LongType, StructType}

/**
 * Puts a [[KeyedTask]] together, step by step; Python calls this. Each step takes its inputs by their numbers and returns its
 * own. The work on a row is a DataFrame over `rowOf`, whose columns are those of the row.
 *
 * @param deleted the column of a row that says that it is deleted
 * @param time    the column of a row with its event time
 */
final class KeyedTaskBuilder(session: SparkSession, deleted: String, time: String) {
  private val nodes = mutable.Buffer.empty[TaskNode]
  private val schemas = mutable.Buffer.empty[StructType]
  private val stores = mutable.Buffer.empty[TaskStore]
  private val exits = mutable.Buffer.empty[StructType]

  /** A frame with a row's columns, to compute with. */
  def rowOf(schema: String): DataFrame = over(columns(schema, ""))

  /** A frame with the columns of two rows, each under its alias, and then those of a third without one. */
  def rowsOf(left: String, leftAlias: String, right: String, rightAlias: String, more: String): DataFrame =
    over(columns(left, leftAlias) ++ columns(right, rightAlias) ++ columns(more, ""))

  /** Rows from outside, in that column of the task's input. */
  def entry(at: Int, schema: String): Int = {
    val row = structOf(schema)
    add(Entry(at, row.length, row.fieldIndex(time)), row)
  }

  def steps(input: Int, rows: DataFrame, table: Boolean): Int =
    add(Steps(input, RowsOf(rows), rows.schema.fieldIndex(deleted), table), rows.schema)

  /**
   * @param key, value over the input's row
   * @param row over the columns of both
   * @param answers the columns of an answer to a question, over the same
   * @param ttl how long a row without an update lasts, in microseconds; 0 for ever
   * @param history how long earlier versions of a row are kept, in microseconds; 0 for not at all
   */
  def table(input: Int, store: String, key: DataFrame, value: DataFrame, row: DataFrame, answers: DataFrame, ttl: Long,
      history: Long): Int = {
    val table = Table(input, store, RowsOf(key), RowsOf(value), RowsOf(row), schemas(input).fieldIndex(deleted), row.schema.fieldIndex(time),
      lasting(ttl, key.schema))
    val versioned = lasting(history, key.schema.add("__at", "bigint", nullable = false)).map(VersionedTable(table, _, value.schema))
    val values = versioned.fold(value.schema)(_.rowSchema)
    val layout = RowLayout(attributes(key.schema), attributes(values))
    stores += TaskStore.byKey(store, key.schema, values, hasFamilies = ttl > 0 || history > 0, Some(shown(layout, answers)))
    add(versioned.getOrElse(table), row.schema)
  }

  /**
   * @param grouped an aggregation of the input's rows, by columns of theirs
   * @param answers the columns of an answer, over the row of a group
   * @param ttl how long a group without a record lasts, in microseconds; 0 for ever
   */
  def group(input: Int, store: String, grouped: DataFrame, answers: DataFrame, ttl: Long): Int = {
    val of = Grouped(grouped)
    addGroup(input, store, of.rows, of.key, of.aggregates, grouped.schema, answers, ttl)
  }

  /**
   * Groups of a table's rows, which are kept.
   *
   * @param sign the column of the input's row that says whether it is the new or the old row
   * @param key over that row: the group, and behind it the row's own key
   * @param value over the same; the event time is the first
   * @param row over the columns of both: the input's row
   * @param grouped, answers as for `group`
   */
  def keptGroup(input: Int, store: String, sign: String, key: DataFrame, value: DataFrame, row: DataFrame, grouped: DataFrame,
      answers: DataFrame): Int = {
    val of = Grouped(grouped)
    val kept = KeptRows(store, of.key.length, key.schema, value.schema, RowsOf(row), of.rows, of.aggregates, grouped.schema.fieldIndex(time))
    val layout = KeptLayout(attributes(key.schema).take(kept.groups), kept, attributes(grouped.schema))
    stores += TaskStore(store, key.schema, value.schema, kept.encoding, hasFamilies = false, Some(shown(layout, answers)))
    val (group, own) = RowsOf(key).values.splitAt(of.key.length)
    val normal = group.map(NormalizeFloatingNumbers.normalize)
    add(KeptGroup(input, store, RowsOf(normal, None), RowsOf(normal ++ own, None), RowsOf(value), kept, schemas(input).fieldIndex(sign)),
      grouped.schema)
  }

  /**
   * Groups in tumbling or hopping windows.
   *
   * @param grouped an aggregation of the input's rows beside their window, by the window and columns of theirs
   * @param windows [[Windows]] as JSON
   * @param late the record to write for a late one: over the row, its window's begin and end, and the stream time; null where nobody gets it
   * @param answers the columns of an answer, over the row of a group
   */
  def windowed(input: Int, store: String, grouped: DataFrame, windows: String, late: DataFrame, answers: DataFrame): Int = {
    val of = Grouped(grouped)
    val rule = Windows.read(windows)
    val bound = of.aggregates.buffers
    val keys = GroupKeys(attributes(bound.groupSchema), Some(rule))
    val layout = GroupLayout(keys, bound, attributes(grouped.schema))
    stores += TaskStore(store, keys.schema, bound.bufferSchema, keys.encoding, hasFamilies = false, Some(shown(layout, answers)))
    add(Windowed(input, store, rule, keys, of.rows, of.key.tail, of.aggregates, schemas(input).fieldIndex(deleted), lateExit(late)),
      grouped.schema)
  }

  /**
   * Groups in sessions or sliding windows.
   *
   * @param found [[RecordWindows]] over the input's rows beside their stream time
   * @param result the row that goes on, over the columns of `found`
   * @param late the record to write for a late one, as for `windowed`
   * @param answers the columns of an answer, over begin and end of a window, the columns of its group, and the aggregates
   */
  def recordWindowed(input: Int, store: String, found: DataFrame, result: DataFrame, late: DataFrame, answers: DataFrame): Int = {
    castToImpl(found).queryExecution.optimizedPlan match {
      case RecordWindows(rule, groups, output, Aggregation(rows)) =>
        val of = RecordRows(rows, groups)
        val read = Project(of.read, rows.of)
        val aggregates = of.aggregates
        val kept = WindowRows.of(rule, of.group, aggregates.buffers.bufferSchema)
        val layout = RecordWindowLayout(rule, of.group, aggregates.buffers, output.drop(RecordWindows.Head.length + groups))
        stores += TaskStore(store, kept.keys, kept.values, kept.encoding, hasFamilies = true, Some(shown(layout, answers)))
        val group = of.group.map(bindReference[Expression](_, read.output))
        add(RecordWindowed(input, store, rule, RowsOf.of(read), of.group, group, aggregates, output, RowsOf(result),
          schemas(input).fieldIndex(deleted), lateExit(late)), result.schema)
      case plan => throw new IllegalArgumentException(s"no windows of records:\n$plan")
    }
  }

  /** One side of a join of two streams, for [[pairs]]; the frames are over the input's row beside its stream time. */
  def side(input: Int, key: DataFrame, row: DataFrame, late: DataFrame): PairFrames = PairFrames(input, key, row, late)

  /**
   * Pairs of two streams.
   *
   * @param pairing [[Pairing]] as JSON
   * @param result over the rows of both sides, as they are kept
   * @param streamTime the name of their column with the stream time, if there is one
   */
  def pairs(left: PairFrames, right: PairFrames, store: String, pairing: String, result: DataFrame, streamTime: String): Int = {
    val rule = Pairing.read(pairing)
    val late = lateExit(left.late)
    def input(name: String, of: PairFrames, late: LateExit, earlier: Long, later: Long, keeps: Boolean): PairInput = {
      val schema = of.row.schema
      val side = JoinSide(name, schema, schema.fieldIndex(time), schema.getFieldIndex(streamTime).getOrElse(-1), earlier, later, keeps)
      val key = RowsOf(of.key)
      PairInput(of.input, side, RowsOf(key.values.map(NormalizeFloatingNumbers.normalize), None), RowsOf(of.row),
        schemas(of.input).fieldIndex(deleted), late)
    }
    stores += TaskStore.byKey(store, KeyedOperator.Unused, KeyedOperator.Unused, hasFamilies = true)
    add(Pairs(input("left", left, late, rule.before, rule.after, rule.keepsLeft),
      input("right", right, late.copy(record = Option(right.late).map(RowsOf(_))), rule.after, rule.before, rule.keepsRight),
      store, rule, left.key.schema, RowsOf(result), result.schema.fieldIndex(time)), result.schema)
  }

  // Where nobody gets late records there is a column all the same: they are counted.
  private def lateExit(record: DataFrame): LateExit = {
    exits += Option(record).fold(new StructType().add("none", "int"))(_.schema)
    LateExit(exits.length - 1, Option(record).map(RowsOf(_)))
  }

  /** The column of the task's output in which the late records of the latest step leave. */
  def lateAt: Int = nodes.last match {
    case windowed: WindowedNode => windowed.late.at
    case pairs: Pairs => pairs.left.late.at
    case other => throw new IllegalStateException(s"$other has no late records")
  }

  /**
   * @param key over the input's row
   * @param within the time, in microseconds
   */
  def deduplicate(input: Int, store: String, key: DataFrame, within: Long): Int = {
    val passed = new StructType().add("passed", "bigint", nullable = false)
    stores += TaskStore.byKey(store, key.schema, passed)
    val row = schemas(input)
    add(Deduplicate(input, store, RowsOf(key), within, row.fieldIndex(deleted)), row)
  }

  /**
   * @param key the columns of the input's key, over its row
   * @param limit for how long a change is held back, in microseconds
   */
  def suppress(input: Int, store: String, key: DataFrame, limit: Long): Int = {
    val row = schemas(input)
    val value = new StructType().add("since", "bigint", nullable = false).add("known", row)
    stores += TaskStore.byKey(store, key.schema, value, hasFamilies = true)
    add(Suppress(input, store, value, row.length, row.fieldIndex(time), Ttl(limit, key.schema)), row)
  }

  private def addGroup(input: Int, store: String, rows: RowsOf, key: Seq[Expression], aggregates: RowAggregates, result: StructType,
      answers: DataFrame, ttl: Long): Int = {
    val bound = aggregates.buffers
    val layout = GroupLayout(GroupKeys(attributes(bound.groupSchema), None), bound, attributes(result))
    stores += TaskStore.byKey(store, bound.groupSchema, bound.bufferSchema, hasFamilies = ttl > 0, Some(shown(layout, answers)))
    add(Group(input, store, rows, key, aggregates, schemas(input).fieldIndex(deleted), result.fieldIndex(time),
      lasting(ttl, bound.groupSchema)), result)
  }

  private def shown(layout: StoredLayout, answers: DataFrame) = ShownRows(layout, RowsOf(answers), answers.columns.toSeq)

  private def lasting(ttl: Long, keys: StructType): Option[Ttl] = Option.when(ttl > 0)(Ttl(ttl, keys))

  /**
   * @param key over the stream's row
   * @param result over both rows
   * @param asOf whether the record meets the row of its own event time
   */
  def lookup(stream: Int, table: Int, key: DataFrame, result: DataFrame, keepsAll: Boolean, asOf: Boolean): Int =
    add(lookupOf(stream, table, key, result, keepsAll, asOf), result.schema)

  /**
   * The same with records that wait in the store, with the columns of the step that they come from.
   *
   * @param grace how long they wait, in microseconds
   */
  def heldLookup(stream: Int, table: Int, store: String, key: DataFrame, result: DataFrame, keepsAll: Boolean, grace: Long): Int = {
    val keys = HeldRecords.Keys
    stores += TaskStore(store, keys, schemas(stream), RangeKeyScanStateEncoderSpec(keys, keys.indices), hasFamilies = false, None)
    add(HeldLookup(lookupOf(stream, table, key, result, keepsAll, asOf = true), store, grace), result.schema)
  }

  private def lookupOf(stream: Int, table: Int, key: DataFrame, result: DataFrame, keepsAll: Boolean, asOf: Boolean): Lookup =
    Lookup(stream, table, RowsOf(key), RowsOf(result), schemas(stream).fieldIndex(deleted), schemas(table).length, keepsAll, asOf)

  /**
   * Rows of a table by other columns than its key, and lookups in them.
   *
   * @param sign the column of a table's row that says whether it is the new or the old row
   * @param wanted over the stream's row: the columns that it looks up
   * @param key, value over the table's row; `key` has the columns that it is found by, and behind them the row's own key
   * @param row over the columns of the value
   * @param result over both rows
   */
  def columnLookup(stream: Int, table: Int, store: String, sign: String, wanted: DataFrame, key: DataFrame, value: DataFrame,
      row: DataFrame, result: DataFrame, keepsAll: Boolean): Int = {
    val width = wanted.columns.length
    stores += TaskStore(store, key.schema, value.schema, PrefixKeyScanStateEncoderSpec(key.schema, width), hasFamilies = false, None)
    val (by, own) = RowsOf(key).values.splitAt(width)
    val normal = Seq(RowsOf(wanted).values, by).map(_.map(NormalizeFloatingNumbers.normalize))
    add(ColumnLookup(stream, table, store, RowsOf(normal.head, None), RowsOf(normal.last ++ own, None), RowsOf(value), RowsOf(row),
      RowsOf(result), schemas(table).fieldIndex(sign), schemas(stream).fieldIndex(deleted), schemas(table).length, keepsAll), result.schema)
  }

  def tableJoin(left: Int, right: Int, result: DataFrame, keepsLeft: Boolean, keepsRight: Boolean): Int =
    add(TableJoin(left, right, RowsOf(result), result.schema.fieldIndex(time), side(left), side(right), keepsLeft, keepsRight), result.schema)

  /**
   * @param move the column of a left row with its move
   * @param foreign, key, value over the left row
   * @param row over the columns of the value
   * @param result, none over both rows
   */
  def foreignRows(left: Int, right: Int, store: String, move: String, foreign: DataFrame, key: DataFrame, value: DataFrame,
      row: DataFrame, result: DataFrame, none: DataFrame, keepsLeft: Boolean): Int = {
    val encoding = PrefixKeyScanStateEncoderSpec(key.schema, foreign.columns.length)
    stores += TaskStore(store, key.schema, value.schema, encoding, hasFamilies = false, None)
    add(ForeignRows(left, right, store, RowsOf(foreign), RowsOf(key), RowsOf(value), RowsOf(row), RowsOf(result), RowsOf(none),
      schemas(left).fieldIndex(move), result.schema.fieldIndex(time), side(right), keepsLeft), result.schema)
  }

  /**
   * @param key over the input's row
   * @param value over the same, and the state
   * @param again over the columns of the value, and the state
   * @param row, answers over the columns of key and value
   */
  def foreignResults(input: Int, store: String, move: String, key: DataFrame, value: DataFrame, again: DataFrame, row: DataFrame,
      answers: DataFrame): Int = {
    val layout = RowLayout(attributes(key.schema), attributes(value.schema))
    stores += TaskStore.byKey(store, key.schema, value.schema, shown = Some(shown(layout, answers)))
    val schema = schemas(input)
    add(ForeignResults(input, store, RowsOf(key), RowsOf(value), RowsOf(again), RowsOf(row), schema.fieldIndex(deleted),
      schema.fieldIndex(move), schema.fieldIndex(time)), row.schema)
  }

  /**
   * Rows that leave, in a column of their own of the task's output. Returns the number of the column.
   *
   * @param gone the row that reports a deletion, over the row and the time of its deletion in microseconds; null for a stream
   */
  def exit(input: Int, gone: DataFrame): Int =
    leave(schemas(input), at => Exit(input, at, schemas(input).length, Option(gone).map(RowsOf(_)), None))

  /** @param change over the old row, the new row, and the time of the change; the columns of a missing row are null */
  def exitOfChanges(input: Int, change: DataFrame): Int =
    leave(change.schema, at => Exit(input, at, schemas(input).length, None, Some(RowsOf(change))))

  /**
   * The task's output: one struct column for each exit, of which one is not null.
   *
   * @param rows the columns of the key, those of the order, then a struct column for each entry, of which one is not null
   * @param now the column of the rows with the stream time of their partition
   * @param streamTime the name of a column for the stream time of each output row, if there is to be one; else empty
   */
  def frame(rows: DataFrame, keys: Int, order: Int, now: String, streamTime: String): DataFrame = {
    val input = rows.asInstanceOf[Dataset[Row]]
    // A table that is written nowhere has no exits, but a relation needs columns.
    val output = exits.toSeq.zipWithIndex.map { case (schema, at) => AttributeReference(s"__exit_$at", schema)() }
    val some = if (output.isEmpty) Seq(AttributeReference("__exit_0", new StructType().add("__none", "int"))()) else output
    val time = Option.when(streamTime.nonEmpty)(AttributeReference(streamTime, LongType)())
    val shifted = nodes.toSeq.map {
      case entry: Entry => entry.copy(at = keys + order + entry.at)
      case other => other
    }
    val nowAt = input.columns.indexOf(now)
    Dataset.ofRows(session,
      KeyedTask(keys, order, nowAt, TaskGraph(shifted, stores.toSeq), CurrentTimestamp(), some ++ time, input.queryExecution.analyzed))
  }

  private def add(node: TaskNode, schema: StructType): Int = {
    nodes += node
    schemas += schema
    nodes.length - 1
  }

  private def leave(schema: StructType, node: Int => TaskNode): Int = {
    exits += schema
    add(node(exits.length - 1), schema)
    exits.length - 1
  }

  private def side(input: Int): Side = Side(schemas(input).length, schemas(input).fieldIndex(time))

  private def structOf(json: String): StructType = DataType.fromJson(json).asInstanceOf[StructType]

  private def columns(json: String, alias: String): Seq[AttributeReference] = structOf(json).map { field =>
    AttributeReference(field.name, field.dataType)(qualifier = Seq(alias).filter(_.nonEmpty))
  }

  private def attributes(schema: StructType): Seq[AttributeReference] =
    schema.map(field => AttributeReference(field.name, field.dataType)())

  private def over(columns: Seq[AttributeReference]): DataFrame = Dataset.ofRows(session, GivenRows(columns))
}

/** The input of one side of a join of two streams, as frames. */
final case class PairFrames(input: Int, key: DataFrame, row: DataFrame, late: DataFrame)

/**
 * An aggregation of a processor's rows.
 *
 * @param rows the columns of a row that are aggregated
 * @param key  the group, over `rows`
 */
private final case class Grouped(rows: RowsOf, key: Seq[Expression], aggregates: RowAggregates)

private object Grouped {
  def apply(frame: DataFrame): Grouped = {
    val plan = castToImpl(frame).queryExecution.optimizedPlan
    Aggregation.whole(plan) match {
      case Some(PhysicalAggregation(groups, calls, results, rows)) =>
        val key = groups.map { case Alias(computed, _) => computed; case column => column }.map(NormalizeFloatingNumbers.normalize)
        Grouped(RowsOf.of(rows), key.map(bindReference[Expression](_, rows.output)),
          RowAggregates(groups.map(_.toAttribute), rows.output, calls, results))
      case _ => throw new IllegalArgumentException(s"no aggregation:\n$plan")
    }
  }
}
