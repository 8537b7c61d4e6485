// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import scala.collection.immutable.VectorMap

import org.apache.spark.sql.streamapp.MetadataTopic.Change

/** Changes of the driver's files that wait for the next write, the last one of each path. Any thread may call. */
private[streamapp] final class DeferredChanges {
  @volatile private var waiting = VectorMap.empty[String, Array[Byte]]

  /** All waiting changes, in the order in which they came. */
  def all: Seq[Change] = waiting.toSeq

  def add(changes: Seq[Change]): Unit = synchronized { waiting = waiting ++ changes }

  /** Forgets changes that are written; newer changes of the same paths still wait. */
  def forget(written: Seq[Change]): Unit = synchronized {
    waiting = waiting.removedAll(written.collect { case (path, bytes) if waiting.get(path).exists(_ eq bytes) => path })
  }
}
