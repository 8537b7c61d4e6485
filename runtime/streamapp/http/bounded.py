# SPDX-License-Identifier: Apache-2.0
"""An HTTP server that strangers cannot exhaust. It has a bounded number of connections, each with a thread of its own,
and a connection without a question may be closed."""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from threading import Lock
from typing import Any

MOST_CONNECTIONS = 64
IDLE_SECONDS = 30.0
"""The time after which an idle connection is closed."""
LARGEST_HEAD = 16 * 1024
"""The largest head of a request, in bytes: all that comes before its body."""


@dataclass
class _Connection:
    """A connection. `answering`: a whole question has been read, and the answer is not written yet."""

    socket: socket.socket
    answering: bool = False


class BoundedServer(ThreadingHTTPServer):
    """A server with at most MOST_CONNECTIONS connections. Beyond that, a new connection takes the place of the oldest
    one without a question: clients that ask at once, as probes do, get through. If all others are being answered, the
    new one is closed."""

    daemon_threads = True
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, address: tuple[str, int], handler: type[BoundedHandler], ipv6: bool) -> None:
        self.address_family = socket.AF_INET6 if ipv6 else socket.AF_INET
        self._lock = Lock()
        self._open: dict[int, _Connection] = {}
        """The open connections by file descriptor, the oldest first."""
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._admit(request):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request.fileno(), None)
        super().shutdown_request(request)

    def answering(self, request: socket.socket, yes: bool) -> None:
        """Notes that a connection's question is being answered, or that the answer is over."""
        with self._lock:
            if (found := self._open.get(request.fileno())) is not None:
                found.answering = yes

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores broken connections, which are normal."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def _admit(self, request: socket.socket) -> bool:
        with self._lock:
            while len(self._open) >= MOST_CONNECTIONS:
                idle = next((number for number, each in self._open.items() if not each.answering), None)
                if idle is None:
                    return False
                _hang_up(self._open.pop(idle).socket)
            self._open[request.fileno()] = _Connection(request)
            return True


class BoundedHandler(BaseHTTPRequestHandler):
    """A handler that reads at most LARGEST_HEAD bytes of a request's head."""

    server: BoundedServer
    connection: socket.socket
    timeout = IDLE_SECONDS
    protocol_version = "HTTP/1.1"

    def parse_request(self) -> bool:
        whole, self.rfile = self.rfile, _Head(self.rfile, LARGEST_HEAD)  # type: ignore[assignment]
        try:
            understood = super().parse_request()
        finally:
            self.rfile = whole
        return understood

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: requests are normal."""


class _Head:
    """The lines of a request's head."""

    def __init__(self, whole: BufferedIOBase, left: int) -> None:
        self._whole, self._left = whole, left

    def readline(self, size: int) -> bytes:
        line = self._whole.readline(min(size, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise LineTooLong("header line")
        return line


def _hang_up(connection: socket.socket) -> None:
    """Ends a connection. Its thread then reads its end, or cannot go on writing, and closes it."""
    with suppress(OSError):  # the client has closed it already
        connection.shutdown(socket.SHUT_RDWR)
