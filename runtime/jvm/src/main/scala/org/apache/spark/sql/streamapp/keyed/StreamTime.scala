// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.util.{List => JList}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.streamapp.RuntimeConf
import org.apache.spark.sql.types.LongType
import org.apache.spark.unsafe.types.UTF8String

/**
 * Gives each row the stream time of its source partition, which is read in the order of its offsets: the latest event time
 * up to this record, and at least the closed time. A window that ends, with its grace, up to there is over for the row.
 *
 * A row of an internal topic (a hop) has the stream time that it was written with, where it has one, as the partitions of a hop mix
 * those before it; closed windows are over for it anyway. There the latest event time of the partition is a column of its own: rows in
 * its order stay in the order of their offsets.
 *
 * @param tag the tag of the source, see [[TimedSources]]
 * @param place topic, partition and event time; for a hop, also the column with the stream time that it was written with
 * @param times the added columns, in microseconds since 1970: stream time, and for a hop the latest event time
 */
final case class StreamTime(tag: String, place: Seq[Attribute], times: Seq[Attribute], child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output ++ times
  override def producedAttributes: AttributeSet = AttributeSet(times)
  override protected def withNewChildInternal(newChild: LogicalPlan): StreamTime = copy(child = newChild)
}

object StreamTime {
  /** Returns the frame with added columns of these names, computed from the columns of its place ([[StreamTime]] describes both). */
  def of(frame: DataFrame, tag: String, columns: JList[String], names: JList[String]): DataFrame = {
    val rows = frame.asInstanceOf[Dataset[Row]]
    val plan = rows.queryExecution.analyzed
    val place = columns.asScala.toSeq.map { column =>
      plan.output.find(_.name == column).getOrElse(throw new IllegalArgumentException(s"no column $column"))
    }
    Dataset.ofRows(rows.sparkSession,
      StreamTime(tag, place, names.asScala.toSeq.map(AttributeReference(_, LongType, nullable = false)()), plan))
  }
}

object StreamTimeStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case StreamTime(tag, place, times, child) => Seq(StreamTimeExec(tag, place, times, planLater(child)))
    case _ => Nil
  }
}

final case class StreamTimeExec(tag: String, place: Seq[Attribute], times: Seq[Attribute], child: SparkPlan)
  extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output ++ times
  override def producedAttributes: AttributeSet = AttributeSet(times)

  override protected def doExecute(): RDD[InternalRow] = {
    val epoch = EpochTimes.underWay(RuntimeConf(session.conf.getAll))
    val before = epoch.before
    val measured = epoch.measured(sparkContext)
    val (tag, columns) = (this.tag, child.output)
    val places = place.map(attribute => columns.indexWhere(_.exprId == attribute.exprId))
    val Seq(topicAt, partitionAt, timeAt) = places.take(3)
    val carriedAt = places.lift(3)
    val withTimes = columns ++ times
    // Unlike an unknown time, this one can be reckoned with.
    val closed = math.max(before.closed, StreamTimes.LongAgo)
    // Spark need not look into the bytes of this closure.
    child.execute().mapPartitionsInternal { rows =>
      val project = UnsafeProjection.create(withTimes.map(a => a.withNullability(true)), withTimes.map(_.withNullability(true)))
      val clock = new PartitionClocks(tag, before)
      val added = new GenericInternalRow(if (carriedAt.isEmpty) 1 else 2)
      val both = new JoinedRow().withRight(added)
      new Iterator[InternalRow] {
        private var ended = false
        override def hasNext: Boolean = {
          val more = rows.hasNext
          if (!more && !ended) {
            clock.reached.foreach(measured.add)
            ended = true
          }
          more
        }
        override def next(): InternalRow = {
          val row = rows.next()
          val latest = clock.at(row.getUTF8String(topicAt), row.getInt(partitionAt), row.getLong(timeAt), row.isNullAt(timeAt))
          carriedAt match {
            case Some(at) =>
              added.update(0, if (row.isNullAt(at)) closed else math.max(row.getLong(at), closed))
              added.update(1, latest)
            case None => added.update(0, latest)
          }
          project(both.withLeft(row))
        }
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): StreamTimeExec = copy(child = newChild)
}

/** The stream times of the partitions that one task reads. */
private final class PartitionClocks(tag: String, before: StreamTimes) {
  private final class Clock(val topic: UTF8String, val partition: Int, var time: Long)
  private val clocks = mutable.LinkedHashMap.empty[String, Clock]
  private var current: Clock = _

  /** The stream time at a record, at least the closed time. */
  def at(topic: UTF8String, partition: Int, time: Long, untimed: Boolean): Long = {
    if (current == null || current.partition != partition || current.topic != topic) {
      val key = TimedSources.key(tag, topic.toString, partition)
      current = clocks.getOrElseUpdate(key, new Clock(topic.clone(), partition, before.of(key)))
    }
    if (!untimed && time > current.time) current.time = time
    math.max(current.time, before.closed)
  }

  def reached: Iterator[(String, Long)] = clocks.iterator.collect {
    case (key, clock) if clock.time != StreamTimes.Unknown => key -> clock.time
  }
}
