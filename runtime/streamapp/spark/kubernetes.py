# SPDX-License-Identifier: Apache-2.0
"""Spark on Kubernetes: the driver runs in a pod that exists already, and makes the executors' pods."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from streamapp.spark.session import PROCESSORS, Place, task_slots

API_SERVER = "k8s://https://kubernetes.default.svc:443"
LOG_CONFIG = Path(__file__).with_name("log4j2-console.properties")
_MANY = str(2**31 - 1)
_JAVA_MIB = 192
"""Java's memory beyond its heap: classes, compiled code, buffers, threads."""
_STORES_SHARE = 0.5
_LEAST_STORES_MIB = 32


@dataclass(frozen=True)
class Executors:
    """The shape of the executors' pods."""

    template: Path
    """The file with everything about them that is not below."""
    image: str
    image_pull_policy: str
    prefix: str
    """The beginning of their names."""
    processors: int
    """The number of tasks that compute at a time in one pod. Small tasks mostly wait, so more of them run."""
    cpu: str
    """The CPU request, as a Kubernetes quantity."""
    cpu_limit: str | None
    heap_mib: int
    overhead_mib: int
    """Memory of the container beyond the heap: RocksDB, buffers, threads."""


@dataclass(frozen=True)
class DriverPod:
    """The pod this process runs in."""

    name: str
    namespace: str
    address: str
    rpc_port: int
    block_port: int
    """The port of the block managers of driver and executors."""
    heap_mib: int
    rpc_secret_file: Path
    """The file with the secret that driver and executors share, at the same path in all pods."""


def pods_of(driver: DriverPod, executors: Executors, replicas: int, partitions: int) -> Place:
    """A place where `replicas` executor pods serve this driver's pod.

    Args:
        driver: this pod.
        executors: the shape of their pods.
        replicas: the number of executor pods.
        partitions: the number of state partitions: an executor cannot use more task slots than these.
    """
    image = {
        "spark.kubernetes.container.image": executors.image,
        "spark.kubernetes.container.image.pullPolicy": executors.image_pull_policy,
        "spark.kubernetes.executor.podTemplateFile": str(executors.template),
        "spark.kubernetes.executor.podTemplateContainerName": "executor",
        # A driver that follows another one counts its executors from the start again.
        "spark.kubernetes.executor.podNamePrefix": f"{executors.prefix}-{secrets.token_hex(3)}",
    }
    size = {
        # spark-submit refuses zero executors; the app lets the one go as soon as it runs.
        "spark.executor.instances": str(max(1, replicas)),
        "spark.executor.cores": str(task_slots(partitions, executors.processors)),
        PROCESSORS: str(executors.processors),
        "spark.kubernetes.executor.request.cores": executors.cpu,
        "spark.executor.memoryOverhead": f"{executors.overhead_mib}m",
    }
    if executors.cpu_limit is not None:
        size["spark.kubernetes.executor.limit.cores"] = executors.cpu_limit
    return Place(
        master=API_SERVER,
        memory=f"{driver.heap_mib}m",
        first_memory=None,
        executors=replicas,
        executor_memory=f"{executors.heap_mib}m",
        stores_mib=stores_mib_of(executors.overhead_mib),
        host=driver.address,
        settings=_of_driver(driver) | image | size | _FIXED,
        log_config=LOG_CONFIG,
    )


def stores_mib_of(overhead_mib: int) -> int:
    """Memory for an executor's stores: half of the overhead that Java leaves. RocksDB exceeds its bound a little, the
    allocator takes more than is in use, and the user's functions run beside it.

    >>> [stores_mib_of(mib) for mib in (200, 346, 461, 3686)]
    [32, 77, 134, 1747]
    """
    return max(_LEAST_STORES_MIB, int((overhead_mib - _JAVA_MIB) * _STORES_SHARE))


def _of_driver(driver: DriverPod) -> dict[str, str]:
    return {
        "spark.kubernetes.namespace": driver.namespace,
        # Executors belong to this pod: Kubernetes deletes them with it.
        "spark.kubernetes.driver.pod.name": driver.name,
        "spark.driver.port": str(driver.rpc_port),
        "spark.driver.blockManager.port": str(driver.block_port),
        "spark.blockManager.port": str(driver.block_port),
        "spark.authenticate.secret.file": str(driver.rpc_secret_file),
    }


_FIXED = {
    # The session opens and queries are planned while executors start; the app waits for executors itself (Replicas).
    "spark.scheduler.minRegisteredResourcesRatio": "0",
    # Spark must not wait until this pod is ready before it makes the first executor: the pod is ready only after that.
    "spark.kubernetes.allocation.pods.allocator": "org.apache.spark.scheduler.cluster.k8s.PromptPodsAllocator",
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.authEngineVersion": "2",
    "spark.network.crypto.saslFallback": "false",
    # Spark makes nothing but pods, so the driver's role allows nothing but pods.
    "spark.kubernetes.executor.disableConfigMap": "true",
    "spark.kubernetes.driver.service.deleteOnTermination": "false",
    "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
    "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
    "spark.kubernetes.driver.waitToReusePersistentVolumeClaim": "false",
    "spark.kubernetes.decommission.script": "/opt/decommission.sh",
    # An app that lives for months will lose executors; the operator judges whether that happens too often.
    "spark.executor.maxNumFailures": _MANY,
}
