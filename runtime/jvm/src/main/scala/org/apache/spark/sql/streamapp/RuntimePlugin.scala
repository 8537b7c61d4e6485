// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.util.{Collections, Map => JMap}

import org.apache.spark.SparkContext
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}

/** Spark's plug-in point for what executors tell the driver outside of a task's result (`spark.plugins`). */
class RuntimePlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new DriverPlugin {
    override def init(context: SparkContext, plugin: PluginContext): JMap[String, String] = Collections.emptyMap()
    override def receive(message: Any): AnyRef = {
      message match {
        case state: RestoreState => Restores.note(state)
        case other => throw new IllegalArgumentException(s"unknown message ${other.getClass.getName}")
      }
      null
    }
  }

  override def executorPlugin(): ExecutorPlugin = new ExecutorPlugin {
    override def init(plugin: PluginContext, extraConf: JMap[String, String]): Unit = RuntimePlugin.context = plugin
  }
}

object RuntimePlugin {
  @volatile private var context: PluginContext = _

  def executorId: String = if (context == null) "driver" else context.executorID()

  def tellDriver(message: AnyRef): Unit = if (context != null) context.send(message)
}
