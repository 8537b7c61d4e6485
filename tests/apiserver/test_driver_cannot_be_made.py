# SPDX-License-Identifier: Apache-2.0
"""A driver that the cluster cannot make or start is told of with the cluster's own words."""

from __future__ import annotations

import pytest

from lib.apiserver import ApiServer
from lib.operator import Apps
from lib.wait import until
from streamapp_operator.names import driver_name, driver_pod_name

pytestmark = pytest.mark.cluster


def happens(apps: Apps, kind: str, name: str, reason: str) -> bool:
    """Whether the cluster tells such an event."""
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
    place = {key: driver["metadata"][key] for key in ("name", "namespace", "uid")}
    apps.kube.create(
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": "kubelet-", "namespace": apps.namespace},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", **place},
            "type": "Warning",
            "reason": "FailedMount",
            "message": 'MountVolume.SetUp failed for volume "kafka": secret "kafka-user" not found',
        }
    )
    assert driver["metadata"]["name"] == driver_pod_name("word-count")
    apps.pass_time(60, every=20)
    require_told(apps, "FailedMount", 'secret "kafka-user" not found')
