# SPDX-License-Identifier: Apache-2.0
"""R2: the node of a driver does not answer any more. Kubernetes alone would wait for it for ever; the operator does
not, as the next driver fences the one that may still be at work there."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lib.apiserver import ApiServer, apply_all
from lib.operator import Apps
from lib.operator_process import Operators
from lib.wait import until

pytestmark = pytest.mark.cluster

REPLACED_SECONDS = 90.0
DRIVER = "word-count-driver-0"


class Nodes:
    """Nodes without a kubelet: the test beats their hearts."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._made: list[str] = []

    def make(self) -> str:
        name = f"node-{uuid.uuid4().hex[:6]}"
        apply_all(self._api, [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}])
        self._made.append(name)
        self.beat(name)
        return name

    def beat(self, name: str) -> None:
        """As a kubelet says that all is well."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now[:19] + "Z"}
        self._api.kubectl(
            "patch", "node", name, "--subresource=status", "-p", json.dumps({"status": {"conditions": [ready]}})
        )
        spec = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now}
        place = {"name": name, "namespace": "kube-node-lease"}
        apply_all(
            self._api,
            [{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": place, "spec": spec}],
        )

    @contextmanager
    def beating(self, name: str, every: float = 5.0) -> Iterator[None]:
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(every):
                self.beat(name)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(60)

    def delete(self) -> None:
        if self._made:
            self._api.kubectl("delete", "node", *self._made, "--wait=false")


@pytest.fixture
def nodes(api: ApiServer) -> Iterator[Nodes]:
    made = Nodes(api)
    yield made
    made.delete()


def run_on(apps: Apps, node: str) -> dict[str, Any]:
    """The driver's pod, as scheduler and kubelet of that node would make it run."""
    pod = apps.await_driver()
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": DRIVER}, "target": target}
    apps.kube._call("POST", f"/api/v1/namespaces/{apps.namespace}/pods/{DRIVER}/binding", body=binding)
    apps.set_running(pod, "127.0.0.1")
    return apps.get("Pod", DRIVER)


def evict(apps: Apps, pod: dict[str, Any]) -> None:
    """As the cluster does when the pod has borne the taint of its node for long enough."""
    why = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "DeletionByTaintManager",
        # One that is minutes old, as one without a time is, is taken back by the disruption controller.
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    apps.set_pod_status(pod, conditions=[*pod["status"]["conditions"], why])
    apps.kube.delete("Pod", apps.namespace, DRIVER, pod["metadata"]["uid"])


@pytest.mark.parametrize(("by_taint", "seconds"), [(True, -18), (False, 5)], ids=["node-given-up", "asked-to-end"])
def test_a_driver_that_does_not_end_is_forgotten(apps: Apps, nodes: Nodes, by_taint: bool, seconds: int) -> None:
    """So many seconds after its time to end in order, which is half a minute, is over."""
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
