// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.execution.streaming.state

import scala.collection.mutable

import org.apache.kafka.common.TopicPartition

import org.apache.spark.sql.streamapp.RuntimeConf

/**
 * The local bases of this process, one for each changelog partition. A store uses the base of its partition while it lives; when
 * no store has used it for an hour, the partition has long gone elsewhere, and the disk is freed.
 */
private[sql] object LocalBases {
  private val KeepMs = 60L * 60 * 1000

  private final class Entry(val applicationId: String, val base: LocalBase) {
    val users = mutable.Set[AnyRef]()
    var leftAtMs = 0L
  }

  private val entries = mutable.Map[(String, TopicPartition), Entry]()

  /** The base of a changelog partition, which stays until the user has released it. */
  private[state] def of(conf: RuntimeConf, changelog: TopicPartition, user: AnyRef): LocalBase = synchronized {
    val entry = entries.getOrElseUpdate((conf.bootstrapServers, changelog),
      new Entry(conf.applicationId, new LocalBase(changelog)))
    entry.users += user
    entry.base
  }

  private[state] def release(user: AnyRef): Unit = synchronized {
    entries.values.foreach(entry => if (entry.users.remove(user)) entry.leftAtMs = System.currentTimeMillis())
  }

  /** Frees the bases that no store has used for an hour. To be called now and then. */
  private[state] def tidy(nowMs: Long): Unit =
    evict(entry => entry.users.isEmpty && nowMs - entry.leftAtMs >= KeepMs)

  /** Frees the bases of an application that is not at work in this process any more. */
  def closeAll(applicationId: String): Unit = evict(_.applicationId == applicationId)

  /** For tests: the number of bases. */
  private[state] def count: Int = synchronized(entries.size)

  private def evict(which: Entry => Boolean): Unit = synchronized {
    entries.filterInPlace((_, entry) => !(which(entry) && entry.base.evict()))
  }
}
