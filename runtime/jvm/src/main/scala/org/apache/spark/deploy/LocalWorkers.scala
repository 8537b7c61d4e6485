// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.deploy

import org.apache.spark.SparkContext
import org.apache.spark.deploy.worker.Worker
import org.apache.spark.internal.config
import org.apache.spark.sql.streamapp.SparkInternals
import org.apache.spark.util.Utils

/**
 * Further workers for a `local-cluster`, which by itself stays at the number that it was started with; each has room for one executor.
 */
private[spark] object LocalWorkers {

  private val Shape = """local-cluster\[\s*\d+\s*,\s*(\d+)\s*,\s*(\d+)\s*]""".r

  /** Starts workers until there are `count`; does nothing where Spark runs elsewhere. */
  def atLeast(context: SparkContext, count: Int): Unit = LocalSparkCluster.get.foreach { cluster =>
    val Shape(cores, memory) = context.master: @unchecked
    val workers = SparkInternals.workers(cluster)
    val port = SparkInternals.masters(cluster).head.address.port
    val masters = Array(s"spark://${Utils.localHostNameForURI()}:$port")
    val conf = context.conf.clone().set(config.SHUFFLE_SERVICE_ENABLED, false)
    while (workers.size < count) {
      workers += Worker.startRpcEnvAndEndpoint(
        Utils.localHostName(), 0, 0, cores.toInt, memory.toInt, masters, null, Some(workers.size + 1), conf)
    }
  }
}
