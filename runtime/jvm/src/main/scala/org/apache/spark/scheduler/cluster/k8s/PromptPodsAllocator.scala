// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.scheduler.cluster.k8s

import io.fabric8.kubernetes.client.KubernetesClient

import org.apache.spark.{SecurityManager, SparkConf}
import org.apache.spark.util.Clock

/**
 * Makes executors as Spark does, but from the first moment on.
 *
 * Spark first waits until the driver's pod is ready, so that the name of its service leads to it, and after a second or
 * more logs an error and goes on. Our driver is ready only when it has executors that process records, so it would wait
 * in vain each time; and executors get its address, not a name.
 */
private[spark] class PromptPodsAllocator(
    conf: SparkConf,
    securityManager: SecurityManager,
    builder: KubernetesExecutorBuilder,
    client: KubernetesClient,
    store: ExecutorPodsSnapshotsStore,
    clock: Clock)
  extends ExecutorPodsAllocator(conf, securityManager, builder, client, store, clock) {

  override def start(applicationId: String, backend: KubernetesClusterSchedulerBackend): Unit = {
    appId = applicationId
    store.addSubscriber(podAllocationDelay)(onNewSnapshots(applicationId, backend, _))
  }
}
