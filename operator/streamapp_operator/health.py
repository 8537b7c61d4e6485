# SPDX-License-Identifier: Apache-2.0
"""Whether the operator is alive and ready: pages for probes and scrapers.

Alive: no thread of ours has ended or hangs. Ready: the API server has lately named the holder of the Lease, be it this
operator or another one, for which it stands by.
"""

from __future__ import annotations

import socket
from typing import Any

from streamapp.http.server import StatusServer
from streamapp_operator.cluster.lease import Lease
from streamapp_operator.controller import Controller


def health(controller: Controller, lease: Lease) -> dict[str, Any]:
    """The answer of `/status`; the probes go by its `phase`, which is Running, Starting or Failed."""
    fault = controller.fault
    return {
        "phase": "Failed" if fault else "Running" if lease.is_known else "Starting",
        "fault": fault,
        "leader": lease.is_held,
        "waiting": controller.queue.depth,
    }


def serve(controller: Controller, lease: Lease, port: int) -> StatusServer:
    """Serves `/healthz`, `/readyz`, `/status` and `/metrics` on all addresses; nothing of them is secret.

    Raises:
        OSError: when the port cannot be had.
    """
    host = "::" if socket.has_dualstack_ipv6() else "0.0.0.0"
    server = StatusServer(lambda: health(controller, lease), controller.metrics.registry, port, host)
    server.start()
    return server
