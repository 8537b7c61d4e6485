# SPDX-License-Identifier: Apache-2.0
"""Nodes of a cluster that is an API server alone, and pods on them. The cluster may end a pod without a node at any
time."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from lib.apiserver import ApiServer, apply_all
from lib.operator import Apps

DRIVER = "word-count-driver-0"


class Nodes:
    """Nodes without a kubelet: the test sends their heartbeats."""

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
        """Reports, as a kubelet does, that all is well."""
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


def run_on(apps: Apps, node: str) -> dict[str, Any]:
    """Sets the driver's pod as the scheduler and the kubelet of that node would do to run it."""
    pod = apps.await_driver()
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": DRIVER}, "target": target}
    apps.kube._call("POST", f"/api/v1/namespaces/{apps.namespace}/pods/{DRIVER}/binding", body=binding)
    apps.set_running(pod, "127.0.0.1")
    return apps.get("Pod", DRIVER)
