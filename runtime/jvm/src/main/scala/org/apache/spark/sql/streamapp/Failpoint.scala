// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.concurrent.atomic.AtomicBoolean

/**
 * Named places where a test can crash, fail or pause the runtime.
 *
 * `STREAMAPP_FAILPOINTS` holds `NAME[@EPOCH][#PARTITION]=ACTION` items separated by commas, where ACTION is
 * `halt` (the process dies at once, as by SIGKILL), `fail` (one exception) or `pause:MILLIS`. Each item acts
 * once per process. Without the variable a failpoint costs one check of an empty array.
 */
object Failpoint {

  private final class Armed(val name: String, epoch: Option[Long], partition: Option[Int], action: String) {
    private val spent = new AtomicBoolean(false)

    def hit(atEpoch: Long, atPartition: Int): Unit =
      if (epoch.forall(_ == atEpoch) && partition.forall(_ == atPartition) && spent.compareAndSet(false, true)) {
        System.err.println(s"FAILPOINT $name epoch=$atEpoch partition=$atPartition $action")
        System.err.flush()
        action match {
          case "halt" => Runtime.getRuntime.halt(137)
          case "fail" => throw new InjectedFailure(s"failpoint $name at epoch $atEpoch, partition $atPartition")
          case pause if pause.startsWith("pause:") => Thread.sleep(pause.stripPrefix("pause:").toLong)
          case other => throw new IllegalArgumentException(s"failpoint $name: unknown action '$other'")
        }
      }
  }

  private val Item = """([\w.\-]+)(?:@(\d+))?(?:#(\d+))?=(.+)""".r

  private val armed: Array[Armed] = sys.env.get("STREAMAPP_FAILPOINTS").toArray
    .flatMap(_.split(',')).map(_.trim).filter(_.nonEmpty).map {
      case Item(name, epoch, partition, action) =>
        new Armed(name, Option(epoch).map(_.toLong), Option(partition).map(_.toInt), action)
      case other => throw new IllegalArgumentException(s"STREAMAPP_FAILPOINTS: cannot read '$other'")
    }

  def hit(name: String, epoch: Long = -1, partition: Int = -1): Unit =
    if (armed.nonEmpty) armed.foreach(point => if (point.name == name) point.hit(epoch, partition))

  /**
   * Hits the failpoint of a driver's file, by where it lies below its sub-topology: "/app/part/offsets/7" is NAME.offsets at epoch 7,
   * "/app/part/state/0/_metadata/metadata" is NAME.state._metadata.metadata. A folder's name ends with ".folder".
   */
  def hitAt(name: String, path: String): Unit = if (armed.nonEmpty) {
    val below = path.split('/').filter(_.nonEmpty).drop(if (path.startsWith("/")) 2 else 0)
    val (numbers, words) = below.partition(_.forall(_.isDigit))
    val kind = if (path.endsWith("/")) words :+ "folder" else words
    hit((name +: kind).mkString("."), numbers.lastOption.map(_.toLong).getOrElse(-1L))
  }
}

/** The exception a test asked for. */
final class InjectedFailure(message: String) extends RuntimeException(message)
