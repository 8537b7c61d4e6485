// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

/** How far the restore of one store partition has come, in changelog offsets. */
final case class RestoreState(store: String, partition: Int, executor: String, done: Long, total: Long,
    startedMs: Long, millis: Long, finished: Boolean) extends Serializable {
  /** Names need no escapes; the rate is in changelog offsets per second. */
  def json: String =
    s"""{"store":"$store","partition":$partition,"executor":"$executor","done":$done,"total":$total,""" +
      s""""startedMs":$startedMs,"millis":$millis,"finished":$finished}"""
}

/** Tells the driver about a restore: when it begins, twice a second meanwhile, and when it has ended. */
final class RestoreProgress private (store: String, partition: Int) {
  private val started = System.nanoTime()
  private val startedMs = System.currentTimeMillis()
  private var reportedAt = started
  private var last = (0L, 0L)
  private var ended = false
  report(finished = false)

  val update: (Long, Long) => Unit = (done, total) => {
    last = (done, total)
    val now = System.nanoTime()
    if (now - reportedAt > 500000000L) {
      reportedAt = now
      report(finished = false)
    }
  }

  /** Reports the end of the restore; only the first call counts. */
  def finish(): Unit = if (!ended) {
    ended = true
    report(finished = true)
  }

  private def report(finished: Boolean): Unit = {
    val (done, total) = last
    RuntimePlugin.tellDriver(RestoreState(store, partition, RuntimePlugin.executorId, done, total, startedMs,
      (System.nanoTime() - started) / 1000000, finished))
  }
}

object RestoreProgress {
  def start(store: String, partition: Int): RestoreProgress = new RestoreProgress(store, partition)
}

/** The driver's view of all restores: the last reported state of each store partition, and the offsets that all of them have passed. */
object Restores {
  private val states = new ConcurrentHashMap[(String, Int), RestoreState]()
  private val passed = new ConcurrentHashMap[String, java.lang.Long]()

  def clear(): Unit = { states.clear(); passed.clear() }

  def note(state: RestoreState): Unit = {
    states.put((state.store, state.partition), state)
    if (state.finished) passed.merge(state.store, state.done, (before: java.lang.Long, more: java.lang.Long) => before + more)
  }

  /** {"partitions": [...], "restored": {STORE: changelog offsets that all its restores have passed since the start}} */
  def json(): String = {
    val restored = passed.asScala.map { case (store, offsets) => s""""$store":$offsets""" }.mkString("{", ",", "}")
    states.values.asScala.map(_.json).mkString("""{"partitions":[""", ",", s"""],"restored":$restored}""")
  }
}
