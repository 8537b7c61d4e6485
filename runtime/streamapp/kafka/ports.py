# SPDX-License-Identifier: Apache-2.0
"""Free TCP ports on this machine."""

from __future__ import annotations

import socket
from contextlib import ExitStack

LOCALHOST = "127.0.0.1"


def free_ports(count: int) -> list[int]:
    """Ports on which no process listens now; all are held until all are found, so that they differ."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((LOCALHOST, 0))
        return [int(each.getsockname()[1]) for each in sockets]


def is_free(port: int, host: str = LOCALHOST) -> bool:
    with socket.socket() as probe:
        # The broker binds in the same way: connections of an earlier process in TIME_WAIT do not matter.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
