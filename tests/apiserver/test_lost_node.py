# SPDX-License-Identifier: Apache-2.0
"""R2: the node of a driver does not answer any more. Kubernetes alone would wait for it for ever; the operator does
not, as the next driver fences the one that may still be at work there."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lib.apiserver import ApiServer
from lib.nodes import DRIVER, Nodes, run_on
from lib.operator import Apps
from lib.operator_process import Operators
from lib.wait import until

pytestmark = pytest.mark.cluster

REPLACED_SECONDS = 90.0


def evict(apps: Apps, pod: dict[str, Any]) -> None:
    """Deletes the pod as the cluster does when the pod has borne the taint of its node for long enough."""
    why = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        # The disruption controller takes back a condition that is minutes old, or that has no time.
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    apps.set_pod_status(pod, conditions=[*pod["status"]["conditions"], why])
    apps.kube.delete("Pod", apps.namespace, DRIVER, pod["metadata"]["uid"])


@pytest.mark.parametrize(("by_taint", "seconds"), [(True, -18), (False, 5)], ids=["node-given-up", "asked-to-end"])
def test_a_driver_that_does_not_end_is_forgotten(apps: Apps, nodes: Nodes, by_taint: bool, seconds: int) -> None:
    """The operator forgets it so many seconds after its time to end in order, which is half a minute, is over."""
    apps.create()
    apps.settle()
    pod = run_on(apps, nodes.make())
    apps.settle()
    if by_taint:
        evict(apps, pod)
    else:
        apps.kube.delete("Pod", apps.namespace, DRIVER, pod["metadata"]["uid"])

    over = datetime.fromisoformat(apps.get("Pod", DRIVER)["metadata"]["deletionTimestamp"])
    apps.now = over + timedelta(seconds=seconds - 1)
    apps.settle()
    assert apps.get("Pod", DRIVER)["metadata"]["uid"] == pod["metadata"]["uid"], "it may still end in order"
    assert apps.status()["phase"] == "Restarting"

    apps.now = over + timedelta(seconds=seconds + 1)
    apps.reconcile()
    changes = apps.status()["target"]["changes"]
    assert changes == [f"forget {DRIVER}, whose node is lost"]
    assert apps.await_driver(other_than=pod["metadata"]["uid"])


def test_a_driver_on_a_lost_node_is_replaced_in_time(
    api: ApiServer, apps: Apps, nodes: Nodes, operators: Operators
) -> None:
    """With the cluster's own controllers, at their own pace, and the operator as a process."""
    operators.start(apps.namespace)
    apps.create()
    lost, well = nodes.make(), nodes.make()
    with nodes.beating(well):  # where no node is well, the cluster blames itself and evicts nobody
        with nodes.beating(lost):
            pod = run_on(apps, lost)
            until(lambda: apps.status()["phase"] == "Starting", 60, "the operator knows the driver", every=0.5)
        died = time.monotonic()
        again = until(
            another(apps, pod["metadata"]["uid"]), REPLACED_SECONDS, "another driver's pod is made", every=0.5
        )
        print(f"another driver's pod {time.monotonic() - died:.0f} s after the node's last sign of life")
        assert again


def another(apps: Apps, uid: str) -> Callable[[], bool]:
    def there() -> bool:
        pod = apps.kube.get("Pod", apps.namespace, DRIVER)
        return pod is not None and pod["metadata"]["uid"] != uid

    return there
