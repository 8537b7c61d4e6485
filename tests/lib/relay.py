# SPDX-License-Identifier: Apache-2.0
"""A relay to a broker that can answer as a broker that goes down does: that there is no broker."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from types import TracebackType

METADATA = 3
FLEXIBLE = 9
"""From this version on, an answer has tags, and lengths that take as few bytes as possible."""


class Relay:
    """A relay to a broker. The broker must advertise the relay's address (`advertised.listeners`), so that clients stay
    with it."""

    def __init__(self) -> None:
        relay = self

        class Connection(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError), socket.create_connection(relay._broker) as server:
                    relay._serve(self.request, server)

        self._broker = ("127.0.0.1", 0)
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection)
        self._server.daemon_threads = True
        self._blind = threading.Event()
        self._told = threading.Event()
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._server.serve_forever, name="relay", daemon=True)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}"

    def lead_to(self, broker: str) -> None:
        host, port = broker.split(":")
        self._broker = (host, int(port))

    @contextlib.contextmanager
    def without_brokers(self, breaks: bool = True) -> Iterator[None]:
        """Makes the relay answer that there is no broker, until the end of the block and until a client has got that
        answer; then connections break, if they shall."""
        self._told.clear()
        self._blind.set()
        try:
            yield
            assert self._told.wait(60), "nobody has asked which brokers there are"
        finally:
            if breaks:
                self._cut()
            self._blind.clear()

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._cut()

    def _cut(self) -> None:
        for each in list(self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _serve(self, client: socket.socket, server: socket.socket) -> None:
        self._open |= {client, server}
        asked: dict[int, int] = {}
        """The versions of requests for metadata, by correlation id."""
        back = threading.Thread(target=self._answers, args=(server, client, asked), daemon=True)
        back.start()
        try:
            for question in _frames(client):
                api, version, correlation = struct.unpack_from(">hhi", question)
                if api == METADATA:
                    asked[correlation] = version
                _send(server, question)
        finally:
            server.shutdown(socket.SHUT_RDWR)
            back.join()
            self._open -= {client, server}

    def _answers(self, server: socket.socket, client: socket.socket, asked: dict[int, int]) -> None:
        with contextlib.suppress(OSError):
            for answer in _frames(server):
                version = asked.pop(struct.unpack_from(">i", answer)[0], None)
                if version is None or not self._blind.is_set():
                    _send(client, answer)
                    continue
                assert version >= FLEXIBLE, f"version {version} of metadata is not known here"
                _send(client, _without_brokers(answer))
                self._told.set()
            client.shutdown(socket.SHUT_RDWR)


def _frames(source: socket.socket) -> Iterator[bytes]:
    """Requests or answers, without their lengths, until the connection ends."""
    with source.makefile("rb") as file:
        while len(head := file.read(4)) == 4:
            (length,) = struct.unpack(">i", head)
            frame = file.read(length)
            if len(frame) < length:
                return
            yield frame


def _send(target: socket.socket, frame: bytes) -> None:
    target.sendall(struct.pack(">i", len(frame)) + frame)


def _without_brokers(answer: bytes) -> bytes:
    """The same answer about metadata, with an empty list of brokers."""
    begin = at = 4 + 1 + 4  # the correlation id, no tags, how long to wait
    count, at = _number(answer, at)
    for _ in range(count - 1):
        host_end = _end_of_text(answer, at + 4)  # behind the node's id
        at = _end_of_text(answer, host_end + 4) + 1  # behind the port; the rack, and no tags
    return answer[:begin] + b"\x01" + answer[at:]


def _end_of_text(answer: bytes, at: int) -> int:
    length, at = _number(answer, at)
    return at + max(length - 1, 0)


def _number(answer: bytes, at: int) -> tuple[int, int]:
    """An unsigned number of variable length, and the position after it."""
    value = shift = 0
    while True:
        byte = answer[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
