// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.util.UUID

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.{FilterExec, ProjectExec, SparkPlan}
import org.apache.spark.sql.execution.aggregate.{BaseAggregateExec, HashAggregateExec, ObjectHashAggregateExec, SortAggregateExec}
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.state.{CommittedStore, KeyStateEncoderSpec, StateStore, StateStoreId, UnsafeRowPair}
import org.apache.spark.sql.types.StructType

/** How a task reads a store for a question. */
trait StoredScan extends Serializable {
  def encoding: KeyStateEncoderSpec
  def values: StructType
  def rows(store: CommittedStore): Iterator[InternalRow]
}

/** An operator's results out of its store, finished as the operator itself finishes them. */
trait StoredResults {
  def place: StatefulOperatorStateInfo
  /** Spark's name for the store. */
  def sparkName: String = StateStoreId.DEFAULT_STORE_NAME
  /** The columns of the key, without a window. */
  def named: Seq[Attribute]
  /** Whether all rows of a key are in one partition, which those columns decide. */
  def together: Boolean

  /** @param wanted the key that the question asks for; None for all keys */
  def scan(wanted: Option[UnsafeRow]): StoredScan
  /** The columns that the scan gives. */
  def scanned: Seq[Attribute]

  /** The key's columns as `__key_0`, `__key_1`, ..., a window first, then the aggregates as `__result_0`, .... */
  def finish(rows: SparkPlan): SparkPlan
}

object StoredResults {
  /**
   * @param plan the plan of the last epoch, which may not have begun to run
   * @param store its name
   * @param run the id of the query's run
   */
  def in(plan: SparkPlan, store: String, run: UUID): StoredResults = plan.collectFirst {
    case found: KeyedAggregateExec => new StoredAggregates(found)
    case task: KeyedTaskExec if task.graph.store(store).isDefined => new StoredTable(task, store, task.stateInfo(run, version = 0))
  }.getOrElse(throw new IllegalStateException(s"no table of ours with store '$store' in the plan:\n$plan"))
}

/** Groups and buffers, as an aggregation stores them. */
private final class StoredAggregates(keyed: KeyedAggregateExec) extends StoredResults {
  private val keys = keyed.save.keyExpressions
  private val windowed = keyed.groupKeys.windows.nonEmpty

  override def place: StatefulOperatorStateInfo = keyed.save.getStateInfo
  override def named: Seq[Attribute] = keyed.groupKeys.named
  // The windows of a key are spread over the partitions.
  override def together: Boolean = !windowed
  override def scanned: Seq[Attribute] = keyed.save.output
  override def scan(wanted: Option[UnsafeRow]): StoredScan =
    AggregateScan(keyed.groupKeys, keyed.save.output.drop(keys.size), named, wanted)

  // An epoch leaves out the columns of the key that no later node uses.
  override def finish(rows: SparkPlan): SparkPlan = {
    val results = keys.zipWithIndex.map { case (key, index) => Alias(key, s"__key_$index")() } ++ keyed.finish.resultExpressions
    val finish: BaseAggregateExec = keyed.finish match {
      case hash: HashAggregateExec => hash.copy(resultExpressions = results)
      case objects: ObjectHashAggregateExec => objects.copy(resultExpressions = results)
      case sorted: SortAggregateExec => sorted.copy(resultExpressions = results)
    }
    finish.withNewChildren(Seq(rows))
  }
}

private final case class AggregateScan(keys: GroupKeys, bufferColumns: Seq[Attribute], named: Seq[Attribute], wanted: Option[UnsafeRow])
  extends StoredScan {
  override def encoding: KeyStateEncoderSpec = keys.encoding
  override def values: StructType = DataTypeUtils.fromAttributes(bufferColumns)

  override def rows(store: CommittedStore): Iterator[InternalRow] = {
    val groupOf = keys.toGroup
    val whole = UnsafeProjection.create((keys.groups ++ bufferColumns).map(_.dataType).toArray)
    val both = new JoinedRow
    def rowOf(key: UnsafeRow, value: UnsafeRow): InternalRow = whole(both(groupOf(key), value))
    wanted match {
      case Some(row) if named.size == keys.groups.size =>
        Option(store.get(row, StateStore.DEFAULT_COL_FAMILY_NAME)).iterator.map(rowOf(row, _))
      case _ =>
        val part = UnsafeProjection.create(named, keys.groups)
        store.iterator(StateStore.DEFAULT_COL_FAMILY_NAME)
          .filter(pair => wanted.forall(_ == part(groupOf(pair.key)))).map(pair => rowOf(pair.key, pair.value))
    }
  }
}

/** The rows of groups whose buffers are stored. */
private final case class FinishedScan(stored: AggregateScan, bound: BoundAggregates) extends StoredScan {
  override def encoding: KeyStateEncoderSpec = stored.encoding
  override def values: StructType = stored.values

  override def rows(store: CommittedStore): Iterator[InternalRow] = {
    val buffers = new AggregateBuffers(bound)
    val ofKey = UnsafeProjection.create(stored.keys.groups.map(_.dataType).toArray)
    val ofValue = UnsafeProjection.create(stored.bufferColumns, stored.keys.groups ++ stored.bufferColumns)
    stored.rows(store).map(row => buffers.result(ofKey(row), buffers.fromState(ofValue(row))))
  }
}

/** A table of a keyed task. */
private final class StoredTable(task: KeyedTaskExec, name: String, override val place: StatefulOperatorStateInfo) extends StoredResults {
  private val store = task.graph.store(name).get
  private val shown = store.shown.getOrElse(throw new IllegalStateException(s"nobody asks for the rows of store '$name'"))

  override def sparkName: String = task.graph.sparkName(store)
  override def named: Seq[Attribute] = shown.layout.named
  // The rows of a task are partitioned by the key without its window.
  override def together: Boolean = true
  override def scanned: Seq[Attribute] = shown.layout.columns
  override def scan(wanted: Option[UnsafeRow]): StoredScan = shown.layout.scan(wanted)
  override def finish(rows: SparkPlan): SparkPlan = {
    val found = shown.answering(rows.output).fold(rows)(FilterExec(_, rows))
    ProjectExec(shown.answersOver(rows.output), found)
  }
}

/** The rows of a column family whose keys begin with a group: all rows, or those of the wanted group. */
private object StoredGroups {
  def in(store: CommittedStore, family: String, wanted: Option[UnsafeRow]): Iterator[UnsafeRowPair] =
    wanted.fold[Iterator[UnsafeRowPair]](store.iterator(family))(store.prefixScan(_, family))
}

/** A scan of the sessions that are open or kept. */
private final case class SessionScan(layout: SessionLayout, bound: BoundAggregates, wanted: Option[UnsafeRow]) extends StoredScan {
  override def encoding: KeyStateEncoderSpec = layout.encoding
  override def values: StructType = layout.values

  override def rows(store: CommittedStore): Iterator[InternalRow] = {
    val (groupOf, bufferOf) = (layout.groupOf, layout.bufferOf)
    val buffers = new AggregateBuffers(bound)
    val (withGroup, whole) = (new JoinedRow, new JoinedRow)
    Iterator(StateStore.DEFAULT_COL_FAMILY_NAME, SessionLayout.Closed).flatMap(StoredGroups.in(store, _, wanted)).map { pair =>
      val group = groupOf(pair.key)
      val span = InternalRow(pair.value.getLong(0), pair.value.getLong(1))
      whole(withGroup(span, group), buffers.result(group, buffers.fromState(bufferOf(pair.value))))
    }
  }
}

/** A scan of groups whose rows are kept; the rows of a group lie together. */
private final case class KeptScan(kept: KeptRows, wanted: Option[UnsafeRow]) extends StoredScan {
  override def encoding: KeyStateEncoderSpec = kept.encoding
  override def values: StructType = kept.values

  override def rows(store: CommittedStore): Iterator[InternalRow] = {
    val groupOf = UnsafeProjection.create(kept.keys.take(kept.groups).zipWithIndex.map { case (field, i) =>
      BoundReference(i, field.dataType, field.nullable)
    })
    val results = new KeptResults(kept)
    val found = StoredGroups.in(store, StateStore.DEFAULT_COL_FAMILY_NAME, wanted).buffered
    Iterator.continually(()).takeWhile(_ => found.hasNext).map { _ =>
      val group = groupOf(found.head.key).copy()
      results.of(group, Iterator.continually(()).takeWhile(_ => found.hasNext && groupOf(found.head.key) == group).map(_ => found.next()))
    }
  }
}

/** A scan of the sliding windows that are open or kept. The panes of a group lie together. */
private final case class SlideScan(slides: Slides, layout: PaneLayout, bound: BoundAggregates, wanted: Option[UnsafeRow])
  extends StoredScan {
  override def encoding: KeyStateEncoderSpec = layout.encoding
  override def values: StructType = layout.values

  override def rows(store: CommittedStore): Iterator[InternalRow] = {
    val groupOf = layout.groupOf
    val buffers = new AggregateBuffers(bound)
    val merge = new PaneMerge(buffers)
    val (withGroup, whole) = (new JoinedRow, new JoinedRow)
    val shown = PaneLayout.shown(store, slides)
    val found = StoredGroups.in(store, StateStore.DEFAULT_COL_FAMILY_NAME, wanted).map { pair =>
      groupOf(pair.key).copy() -> layout.pane(pair)
    }.buffered
    Iterator.continually(()).takeWhile(_ => found.hasNext).flatMap { _ =>
      val group = found.head._1
      val panes = Iterator.continually(()).takeWhile(_ => found.hasNext && found.head._1 == group).map(_ => found.next()._2)
      val ofGroup = new SlidesOfGroup(slides, panes.toIndexedSeq.sorted)
      ofGroup.all.filter(shown).map { slide =>
        whole(withGroup(InternalRow(slide.start, slide.end), group), buffers.result(group, merge.of(group, ofGroup.within(slide))))
      }
    }
  }
}
