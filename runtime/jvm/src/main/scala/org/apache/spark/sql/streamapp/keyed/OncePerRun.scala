// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp.keyed

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.SparkContext
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.util.Utils

/**
 * Sends the executors once what the tasks of a query's run need in each of its epochs. As a part of each task it would be written and
 * read for each epoch anew: settings alone are a third of the driver's work on a small one.
 */
private[streamapp] object OncePerRun {
  private final case class Sent(run: UUID, value: Broadcast[_])
  private val sent = new ConcurrentHashMap[(String, String), Sent]()

  /**
   * Sends a value, unless this run has sent it.
   *
   * @param what the name of the value among those of the operator
   */
  def send[T <: AnyRef](context: SparkContext, state: StatefulOperatorStateInfo, what: String)(value: => T): Broadcast[T] =
    sent.compute((state.checkpointLocation, what), (_, former) =>
      if (former != null && former.run == state.queryRunId) former else Sent(state.queryRunId, context.broadcast[AnyRef](value))
    ).value.asInstanceOf[Broadcast[T]]

  /** Forgets the runs of an app that has ended. */
  def clear(): Unit = sent.clear()
}

/**
 * A value as bytes. Each task that opens it gets objects of its own: tasks of one process share those of a broadcast, and an expression is
 * for one thread.
 */
private[keyed] final class Packed[T] private (bytes: Array[Byte]) extends Serializable {
  def open(): T = Utils.deserialize[T](bytes, Thread.currentThread.getContextClassLoader)
}

private[keyed] object Packed {
  def apply[T](value: T): Packed[T] = new Packed[T](Utils.serialize(value))
}
