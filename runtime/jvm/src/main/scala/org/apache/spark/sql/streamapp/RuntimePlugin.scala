// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.{Collections, Map => JMap}

import org.apache.spark.SparkContext
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.apache.spark.sql.streamapp.keyed.{AskClosing, EpochTimes}

/** The question whether an executor may take over the application's transactional ids. The answer is null, or the exception that says why not. */
final case class MayFence(applicationId: String)

/** The question which runs may commit; answered with [[Runs]] as they are after it was asked, or with the exception that says why none. */
private[streamapp] final case class AskRuns(applicationId: String)
private[streamapp] final case class Runs(ids: Seq[String])

/** Spark's plug-in point for the messages of executors to the driver outside of a task's result (`spark.plugins`). */
class RuntimePlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new DriverPlugin {
    override def init(context: SparkContext, plugin: PluginContext): JMap[String, String] = Collections.emptyMap()
    override def receive(message: Any): AnyRef = {
      message match {
        case state: RestoreState => Restores.note(state); null
        case MayFence(applicationId) => MetadataTopic.objection(applicationId).orNull
        case AskRuns(applicationId) => MetadataTopic.objection(applicationId, now = true).getOrElse(Runs(TransactionalIds.currentRuns))
        case question: AskClosing => EpochTimes.answer(question)
        case other => throw new IllegalArgumentException(s"unknown message ${other.getClass.getName}")
      }
    }
  }

  override def executorPlugin(): ExecutorPlugin = new ExecutorPlugin {
    override def init(plugin: PluginContext, extraConf: JMap[String, String]): Unit = {
      RuntimePlugin.context = plugin
      // Spark's own consumers get their settings with their tasks; the settings of the process are there before the first.
      Option(plugin.conf.get(s"${RuntimeConf.Prefix}clientConfig", "")).filter(_.nonEmpty).foreach(ClientProperties.load)
    }
  }
}

object RuntimePlugin {
  @volatile private var context: PluginContext = _

  def executorId: String = if (context == null) "driver" else context.executorID()

  /**
   * Checks that this driver may go on. To be called before a task fences: tasks of a replaced driver must not fence those of its successor.
   * @throws FencedException when another driver has taken over
   * @throws PositionMismatchException when an internal topic was made anew
   */
  def requireDriver(applicationId: String): Unit =
    if (context != null) Option(context.ask(MayFence(applicationId))).foreach { case reason: RuntimeException => throw reason }

  /**
   * The runs whose tasks may commit; None where there is no driver to ask.
   * @throws FencedException when another driver has taken over
   */
  def runs(applicationId: String): Option[Seq[String]] = Option(context).map(_.ask(AskRuns(applicationId))).map {
    case Runs(ids) => ids
    case reason: RuntimeException => throw reason
  }

  /** The driver's answer to a question of a task. */
  def ask[A](question: AnyRef): A = context.ask(question).asInstanceOf[A]

  def tellDriver(message: AnyRef): Unit = if (context != null) context.send(message)
}
