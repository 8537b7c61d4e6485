# SPDX-License-Identifier: Apache-2.0
"""Health, status and metrics of a running app, one thread per request."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

Status = Mapping[str, Any]


class StatusServer:
    """Serves `/healthz`, `/readyz`, `/status` and `/metrics`.

    Args:
        status: gives the app's status as plain data; called once per request.
        registry: what `/metrics` shows.
        port: 0 for any free one.
        host: address to bind; on a laptop only this machine is served.
    """

    def __init__(
        self,
        status: Callable[[], Status],
        registry: CollectorRegistry,
        port: int = 0,
        host: str = "127.0.0.1",
    ) -> None:
        handler = type("Handler", (_Handler,), {"status": staticmethod(status), "registry": registry})
        self._server = ThreadingHTTPServer((host, port), handler)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, name="http", daemon=True)

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    status: Callable[[], Status]
    registry: CollectorRegistry
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.split("?", 1)[0]
        if path == "/healthz":
            phase = self.status()["phase"]
            self._answer(503 if phase == "Failed" else 200, "text/plain", phase.encode())
        elif path == "/readyz":
            phase = self.status()["phase"]
            self._answer(200 if phase == "Running" else 503, "text/plain", phase.encode())
        elif path == "/status":
            self._answer(200, "application/json", json.dumps(self.status(), indent=1).encode())
        elif path == "/metrics":
            self._answer(200, CONTENT_TYPE_LATEST, generate_latest(self.registry))
        else:
            known = "/healthz /readyz /status /metrics"
            self._answer(404, "text/plain", f"no such page: {path}; there are {known}\n".encode())

    def _answer(self, code: int, content_type: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are not news."""
