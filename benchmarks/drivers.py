# SPDX-License-Identifier: Apache-2.0
"""Simulated drivers and executors for the benchmark of the operator: it reports pods that never run as running, as a
kubelet would, and one small server answers for the drivers of all apps."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from kubernetes import client, watch
from urllib3.exceptions import HTTPError

from lib.operator import Apps
from streamapp_operator.cluster.errors import KubeError
from streamapp_operator.render.driver import DRIVER
from streamapp_operator.render.executors import EXECUTOR
from streamapp_operator.render.meta import APP_ANNOTATION, component_of
from streamapp_operator.render.pods import LIVE_PORT

ADDRESS = "127.88.0.1"
"""An address of the loopback network, which has enough for this one to be free."""
Says = Callable[[], Mapping[str, Any]]
"""The answer of each driver to a request for its status."""


def still() -> Mapping[str, Any]:
    """All records are processed, and none come."""
    return _running(lag=0, epoch=12)


def moving(seconds: float) -> Mapping[str, Any]:
    """Records come and are processed all the time."""
    return _running(lag=int(seconds * 7) % 100, epoch=1 + int(seconds))


def _running(lag: int, epoch: int) -> Mapping[str, Any]:
    return {
        "name": "word-count",
        "phase": "Running",
        "error": None,
        "lag": {"text-lines/0": lag},
        "totalLag": lag,
        "subTopologies": {"word-counts": {"epoch": epoch, "epochs": epoch, "watermark": None}},
        "restore": {},
        "replicas": {"wanted": 1, "running": 1},
    }


class Drivers:
    """Runs every driver's pod of the namespace as soon as it is made, with an executor, until the end of the block.

    Args:
        apps: the namespace.
        connection: a connection of the official client to the same API server.
        says: the drivers' status.
    """

    def __init__(self, apps: Apps, connection: Any, says: Says) -> None:
        self._apps = apps
        self._pods = client.CoreV1Api(connection)
        self._server = ThreadingHTTPServer((ADDRESS, LIVE_PORT), _handler(says))
        self._watch: Any = watch.Watch()
        self._with_executor: set[str] = set()
        self._numbers = itertools.count(1)
        self._stopping = False
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._server.serve_forever, self._follow)
        ]

    def _follow(self) -> None:
        try:
            for event in self._watch.stream(self._pods.list_namespaced_pod, self._apps.namespace):
                if event is None:  # half a line: the API server ends
                    continue
                pod = event["raw_object"]
                try:
                    self._see(event["type"], component_of(pod), pod)
                except (KubeError, AssertionError):  # it, or its app, is gone again: another one comes
                    continue
        except HTTPError:  # the API server has ended
            if not self._stopping:
                raise

    def _see(self, what: str, component: str | None, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["annotations"][APP_ANNOTATION]
        if (what, component) == ("ADDED", DRIVER):
            self._apps.set_running(pod, ADDRESS)
            if name not in self._with_executor:
                self._with_executor.add(name)
                self._apps.add_executor(next(self._numbers), name)
        elif (what, component) == ("DELETED", EXECUTOR):
            self._apps.add_executor(next(self._numbers), name)

    def __enter__(self) -> Drivers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._watch.stop()
        self._server.shutdown()
        self._server.server_close()


def _handler(says: Says) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(says()).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
