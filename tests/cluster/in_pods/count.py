# SPDX-License-Identifier: Apache-2.0
"""A Spark driver in client mode: it asks Kubernetes for two executors and sends work to them."""

import os
import socket
import time

from pyspark import SparkConf, SparkContext

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
NAMESPACE = os.environ["NAMESPACE"]
SETTINGS = {
    "spark.submit.deployMode": "client",
    "spark.kubernetes.namespace": NAMESPACE,
    "spark.kubernetes.authenticate.caCertFile": f"{ACCOUNT}/ca.crt",
    "spark.kubernetes.authenticate.oauthTokenFile": f"{ACCOUNT}/token",
    "spark.kubernetes.driver.pod.name": os.environ["POD_NAME"],
    "spark.kubernetes.container.image": os.environ["IMAGE"],
    "spark.kubernetes.container.image.pullPolicy": "IfNotPresent",
    "spark.kubernetes.executor.podTemplateFile": "/files/executor.json",
    "spark.kubernetes.executor.podTemplateContainerName": "main",
    "spark.kubernetes.executor.request.cores": "100m",
    # By its own address: with 0.0.0.0 it would give that to executors as the address to call.
    "spark.driver.bindAddress": os.environ["POD_IP"],
    "spark.driver.host": f"driver.{NAMESPACE}.svc",
    "spark.driver.port": "7078",
    "spark.driver.blockManager.port": "7079",
    "spark.executor.instances": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.memoryOverhead": "384m",
    # No work before both are there.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.ui.enabled": "false",
}


def task(number: int) -> tuple[str, int]:
    time.sleep(0.2)  # long enough that one executor cannot do all before the other begins
    return socket.gethostname(), number


conf = SparkConf().setMaster("k8s://https://kubernetes.default.svc:443").setAppName("count")
context = SparkContext(conf=conf.setAll(list(SETTINGS.items())))
results = context.parallelize(range(40), 40).map(task).collect()
print("executors", len({host for host, _ in results} - {socket.gethostname()}))
print("sum", sum(number for _, number in results))
context.stop()
