// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import scala.collection.mutable

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
 * up to this record, and no less than what is closed. A window that ends, with its grace, up to there is over for the row.
 *
 * @param tag names the source, see [[TimedSources]]
 * @param place topic, partition and event time
 * @param streamTime the column that is added, in microseconds since 1970
 */
final case class StreamTime(tag: String, place: Seq[Attribute], streamTime: Attribute, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output :+ streamTime
  override def producedAttributes: AttributeSet = AttributeSet(streamTime)
  override protected def withNewChildInternal(newChild: LogicalPlan): StreamTime = copy(child = newChild)
}

object StreamTime {
  /** The frame with that column, made of its columns for topic, partition and event time. */
  def of(frame: DataFrame, tag: String, topic: String, partition: String, time: String, name: String): DataFrame = {
    val rows = frame.asInstanceOf[Dataset[Row]]
    val plan = rows.queryExecution.analyzed
    val place = Seq(topic, partition, time).map { column =>
      plan.output.find(_.name == column).getOrElse(throw new IllegalArgumentException(s"no column $column"))
    }
    Dataset.ofRows(rows.sparkSession,
      StreamTime(tag, place, AttributeReference(name, LongType, nullable = false)(), plan))
  }
}

object StreamTimeStrategy extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case StreamTime(tag, place, streamTime, child) => Seq(StreamTimeExec(tag, place, streamTime, planLater(child)))
    case _ => Nil
  }
}

final case class StreamTimeExec(tag: String, place: Seq[Attribute], streamTime: Attribute, child: SparkPlan)
  extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output :+ streamTime
  override def producedAttributes: AttributeSet = AttributeSet(streamTime)

  override protected def doExecute(): RDD[InternalRow] = {
    val times = EpochTimes.underWay(RuntimeConf(session.conf.getAll))
    val before = times.before
    val measured = times.measured(sparkContext)
    val (tag, columns) = (this.tag, child.output)
    val Seq(topicAt, partitionAt, timeAt) = place.map(attribute => columns.indexWhere(_.exprId == attribute.exprId))
    val withTime = columns :+ streamTime
    child.execute().mapPartitions { rows =>
      val project = UnsafeProjection.create(withTime.map(a => a.withNullability(true)), withTime.map(_.withNullability(true)))
      val clock = new PartitionClocks(tag, before)
      val added = new GenericInternalRow(1)
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
          added.update(0, clock.at(row.getUTF8String(topicAt), row.getInt(partitionAt), row.getLong(timeAt), row.isNullAt(timeAt)))
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

  /** The stream time at a record, and no less than what is closed. */
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
