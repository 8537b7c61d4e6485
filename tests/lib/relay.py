# SPDX-License-Identifier: Apache-2.0
"""A relay to a broker that can answer as a broker does that goes down, or that a partition moves to."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator
from types import TracebackType

LIST_OFFSETS, METADATA = 2, 3
FLEXIBLE = {LIST_OFFSETS: 6, METADATA: 9}
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
        self._error: int | None = None
        """The error of each partition in the next answer about offsets; None: what the broker says."""
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

    def refuse_offsets(self, code: int) -> None:
        """Makes the next answer about offsets say that error of each partition."""
        self._error = code

    @property
    def has_refused(self) -> bool:
        """Whether a client has got the answer of `refuse_offsets`."""
        return self._error is None

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
        asked: dict[int, tuple[int, int]] = {}
        """Kind and version of requests whose answers may be changed, by correlation id."""
        back = threading.Thread(target=self._answers, args=(server, client, asked), daemon=True)
        back.start()
        try:
            for question in _frames(client):
                api, version, correlation = struct.unpack_from(">hhi", question)
                if api in FLEXIBLE:
                    asked[correlation] = api, version
                _send(server, question)
        finally:
            server.shutdown(socket.SHUT_RDWR)
            back.join()
            self._open -= {client, server}

    def _answers(self, server: socket.socket, client: socket.socket, asked: dict[int, tuple[int, int]]) -> None:
        with contextlib.suppress(OSError):
            for answer in _frames(server):
                api, version = asked.pop(struct.unpack_from(">i", answer)[0], (None, 0))
                known = api is not None and version >= FLEXIBLE[api]
                if api == METADATA and self._blind.is_set():
                    assert known, f"version {version} of metadata is not known here"
                    _send(client, _without_brokers(answer))
                    self._told.set()
                elif api == LIST_OFFSETS and self._error is not None:
                    assert known, f"version {version} of offsets is not known here"
                    _send(client, _with_error(answer, self._error))
                    self._error = None
                else:
                    _send(client, answer)
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


def _with_error(answer: bytes, code: int) -> bytes:
    """The same answer about offsets, with that error of each partition."""
    changed, at = bytearray(answer), 4 + 1 + 4  # the correlation id, no tags, how long to wait
    topics, at = _number(answer, at)
    for _ in range(topics - 1):
        partitions, at = _number(answer, _end_of_text(answer, at))
        for _ in range(partitions - 1):
            struct.pack_into(">h", changed, at + 4, code)  # behind the partition's number
            at += 4 + 2 + 8 + 8 + 4 + 1  # number, error, time, offset, epoch; no tags
        at += 1
    return bytes(changed)


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
