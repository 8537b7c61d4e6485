# SPDX-License-Identifier: Apache-2.0
"""Pods with the labels of an app's that do not belong to it: they get no token, count for nothing, and stay."""

from __future__ import annotations

import copy
import http.server
import threading
from pathlib import Path

import pytest

from lib.operator import RUNNING, Apps
from streamapp_operator.render.meta import Object
from streamapp_operator.render.pods import LIVE_PORT

pytestmark = pytest.mark.cluster


class Listener(http.server.BaseHTTPRequestHandler):
    """Notes the requests that it gets."""

    heard: list[str]

    def do_GET(self) -> None:  # the library's name
        self.heard.append(str(self.headers.get("Authorization")))
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def test_a_pod_that_only_looks_like_a_driver_gets_no_token(apps: Apps, tmp_path: Path) -> None:
    apps.create()
    apps.settle()
    driver = apps.await_driver()
    own = apps.add_executor()
    alike = look_alike(apps, driver, "driver-too")
    apps.set_running(alike, address := "127.0.0.99")
    Listener.heard = []
    server = http.server.ThreadingHTTPServer((address, LIVE_PORT), Listener)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        with apps.driver_says(RUNNING, tmp_path):
            apps.settle()
            assert apps.status()["phase"] == "Running"
            executor = look_alike(apps, own, "executor-too")
            apps.set_running(executor, "127.0.0.1")
            apps.settle()
            assert apps.status()["replicas"] == 1
            apps.change(suspend=True)
            apps.settle()
            # The pod that is left has the labels, and would have been the driver.
            for pod in (driver, own):
                apps.kube.delete("Pod", apps.namespace, pod["metadata"]["name"], pod["metadata"]["uid"], 0)
            apps.settle()
            assert apps.status()["phase"] == "Suspended"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)
    assert Listener.heard == []
    for pod in (alike, executor):
        assert "deletionTimestamp" not in apps.get("Pod", pod["metadata"]["name"])["metadata"]


def look_alike(apps: Apps, pod: Object, name: str) -> Object:
    """The pod once more, made by somebody else."""
    made = copy.deepcopy(pod)
    metadata = {key: made["metadata"][key] for key in ("labels", "annotations", "namespace")}
    spec = {key: made["spec"][key] for key in ("containers", "serviceAccountName")}
    for container in spec["containers"]:
        container["volumeMounts"] = []
    return apps.kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "name": name}, "spec": spec})
