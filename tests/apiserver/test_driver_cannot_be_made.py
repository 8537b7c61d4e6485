# SPDX-License-Identifier: Apache-2.0
"""If the cluster cannot make or start a driver, or ends it, the status says so in the cluster's own words."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lib.apiserver import ApiServer
from lib.operator import Apps, Object
from lib.wait import until
from streamapp_operator.names import driver_name, driver_pod_name
from streamapp_operator.times import stamp

pytestmark = pytest.mark.cluster


def happens(apps: Apps, kind: str, name: str, reason: str) -> bool:
    """Whether the cluster has such an event."""
    uid = apps.get(kind, name)["metadata"]["uid"]
    return any(event["reason"] == reason for event in apps.kube.events(apps.namespace, uid))


def require_told(apps: Apps, *words: str) -> None:
    degraded = apps.condition("Degraded")
    assert (degraded["status"], degraded["reason"]) == ("True", "DriverPending")
    for told in (degraded["message"], apps.condition("Ready")["message"], apps.status()["lastError"]["message"]):
        assert all(word in told for word in words), told


def test_a_quota_that_refuses_the_driver_and_a_volume_that_is_missing(api: ApiServer, apps: Apps) -> None:
    api.kubectl("create", "quota", "none", "--hard=pods=0", "-n", apps.namespace)
    hard = ("get", "quota", "none", "-n", apps.namespace, "-o", "jsonpath={.status.hard.pods}")
    until(lambda: api.kubectl(*hard).strip() == "0", 30, "the quota is in force", every=0.1)
    apps.create()
    apps.settle()
    until(
        lambda: happens(apps, "StatefulSet", driver_name("word-count"), "FailedCreate"), 30, "it is refused", every=0.1
    )
    apps.settle()
    assert apps.condition("Degraded")["status"] == "False", "it may come in a moment"
    apps.pass_time(60, every=20)
    require_told(apps, "FailedCreate", "exceeded quota: none")
    assert apps.events().count("DriverPending") == 1

    api.kubectl("delete", "quota", "none", "-n", apps.namespace)
    driver = apps.await_driver()
    apps.settle()
    assert apps.condition("Degraded")["status"] == "False"
    assert "Recovered" in apps.events()
    tell(
        apps,
        driver,
        "Warning",
        "FailedMount",
        'MountVolume.SetUp failed for volume "kafka": secret "kafka-user" not found',
    )
    assert driver["metadata"]["name"] == driver_pod_name("word-count")
    apps.pass_time(60, every=20)
    require_told(apps, "FailedMount", 'secret "kafka-user" not found')


def tell(apps: Apps, pod: Object, kind: str, reason: str, message: str) -> None:
    """Makes an event as a kubelet does."""
    place = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
    now = stamp(apps.kube.clock.now())
    apps.kube.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "kubelet-", "namespace": apps.namespace},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", **place},
            "type": kind,
            "reason": reason,
            "message": message,
            "lastTimestamp": now,
        }
    )


def test_a_driver_that_failed_its_startup_probe(apps: Apps) -> None:
    apps.create()
    apps.settle()
    driver = apps.await_driver()
    began = apps.kube.clock.now()
    tell(apps, driver, "Warning", "Unhealthy", "Startup probe failed: connection refused")
    tell(apps, driver, "Normal", "Killing", "Container driver failed startup probe, will be restarted")
    ended = {
        "exitCode": 143,
        "reason": "Error",
        "startedAt": stamp(began - timedelta(seconds=300)),
        "finishedAt": stamp(began + timedelta(seconds=30)),
    }
    container = {
        "name": "driver",
        "ready": False,
        "started": False,
        "restartCount": 1,
        "image": "x",
        "imageID": "x",
        "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
        "lastState": {"terminated": ended},
    }
    apps.set_pod_status(driver, phase="Running", containerStatuses=[container])
    apps.settle()
    words = "the driver was ended: its startup probe failed: connection refused"
    assert (apps.condition("Degraded")["reason"], apps.condition("Degraded")["message"]) == ("DriverFailed", words)
    assert apps.status()["lastError"]["message"] == words
