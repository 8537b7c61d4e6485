# SPDX-License-Identifier: Apache-2.0
"""A driver runs its author's code. Whatever it answers, the operator keeps its limits, and its token to itself."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from streamapp_operator.backoff import Backoff
from streamapp_operator.driver import client as live
from streamapp_operator.driver.answer import Answer
from streamapp_operator.render.pods import LIVE_PORT

ADDRESS = "127.0.7.1"
OTHER = "127.0.7.2"
POD: dict[str, Any] = {"metadata": {"uid": "pod-1"}, "status": {"podIP": ADDRESS}}


def of_container(restarts: int = 0, ready: bool = True, uid: str = "pod-1") -> dict[str, Any]:
    """A driver's pod that runs."""
    container = {"name": "driver", "restartCount": restarts, "started": True, "state": {"running": {}}}
    conditions = [{"type": "Ready", "status": str(ready)}]
    status = {"podIP": ADDRESS, "phase": "Running", "containerStatuses": [container], "conditions": conditions}
    return {"metadata": {"uid": uid}, "status": status}


@contextmanager
def driver(answer: Callable[[socket.socket], None], address: str = ADDRESS) -> Iterator[list[bytes]]:
    """Answers one request after another, and keeps the requests."""
    asked: list[bytes] = []
    with socket.create_server((address, LIVE_PORT)) as server:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, suppress(OSError):
                        asked.append(request(connection))
                        answer(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield asked
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def request(connection: socket.socket) -> bytes:
    """Reads a whole request: head and body may come one after the other."""
    found = b""
    while b"\r\n\r\n" not in found or (b"PUT" in found and not found.endswith(b"}")):
        found += connection.recv(65536)
    return found


def page(content: bytes, status: str = "200 OK", more: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(content)}\r\n{more}\r\n".encode() + content


def said(content: bytes) -> Callable[[socket.socket], None]:
    return lambda connection: connection.sendall(content)


def drip(first: bytes) -> Callable[[socket.socket], None]:
    """Sends a byte now and then, each sooner than a socket's timeout, until the other side hangs up."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(first)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            connection.sendall(b" ")
            time.sleep(0.05)

    return answer


def test_an_answer_is_read() -> None:
    with driver(said(page(b'{"phase": "Running"}'))) as asked:
        assert live.Drivers().ask(POD, "secret") == (Answer(phase="Running"), "")
        assert live.scale(POD, "secret", 3) == ""
    assert b"GET /status" in asked[0]
    assert b"Bearer secret" in asked[0]
    assert b'{"replicas": 3}' in asked[1]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (page(b"[" * 100_000), "does not answer: nested too deep"),
        (page(b" " * (live.LARGEST + 1)), "its answer is larger than 256 KiB"),
        (page(b"no JSON"), "Expecting value"),
        (page(b"[1]"), "the driver's answer cannot be read"),
        (page(b"{}", "401 Unauthorized"), "HTTP 401"),
        (b"nothing of HTTP\r\n\r\n", "nothing of HTTP"),
        (b"", "without response"),
    ],
    ids=["deep", "large", "no JSON", "no object", "refused", "no HTTP", "nothing"],
)
def test_what_cannot_be_read_is_told(content: bytes, why: str) -> None:
    with driver(said(content)):
        found, words = live.Drivers().ask(POD, "secret")
    assert found is None
    assert why in words


DRIPPING = [
    b"HTTP/1.1 200 OK\r\nX:",
    b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
    b"HTTP/1.0 200 OK\r\n\r\n",
]


@pytest.mark.parametrize("first", DRIPPING)
def test_an_answer_that_drips_is_given_up(first: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "SECONDS", 0.5)
    with driver(drip(first)):
        assert live.Drivers().ask(POD, "secret") == (None, "the driver does not answer: timed out")


def test_a_driver_that_keeps_us_waiting_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "SECONDS", 0.2)
    now = [0.0]
    drivers = live.Drivers(Backoff(live.RETRY_SECONDS, live.LONGEST_RETRY_SECONDS, lambda: now[0]))
    silent = None, "the driver does not answer: timed out"
    with driver(drip(DRIPPING[0])) as asked:
        for _ in range(3):
            assert drivers.ask(of_container(), "secret") == silent
        assert len(asked) == 1
        now[0] += live.RETRY_SECONDS
        assert drivers.ask(of_container(), "secret") == silent
        now[0] += live.RETRY_SECONDS
        assert drivers.ask(of_container(), "secret") == silent
        assert len(asked) == 2, "the second pause is longer"
    with driver(said(page(b"{}"))) as asked:
        for pod in (of_container(restarts=1), of_container(ready=False), of_container(uid="pod-2")):
            assert drivers.ask(pod, "secret") == (Answer(), ""), "another one, or it has changed"
        assert drivers.ask(of_container(), "secret") == silent
        now[0] += live.LONGEST_RETRY_SECONDS
        assert drivers.ask(of_container(), "secret") == (Answer(), "")
        assert len(asked) == 4


def test_a_driver_that_refuses_to_be_asked_is_asked_at_each_look() -> None:
    drivers = live.Drivers()
    for _ in range(2):
        assert "refused" in drivers.ask(of_container(), "secret")[1]
    with driver(said(page(b"{}"))):
        assert drivers.ask(of_container(), "secret") == (Answer(), "")


@pytest.mark.parametrize("status", ["301 Moved Permanently", "302 Found", "307 Temporary Redirect"])
def test_the_token_goes_nowhere_else(status: str) -> None:
    elsewhere = f"Location: http://{OTHER}:{LIVE_PORT}/status\r\n"
    with driver(said(page(b"{}")), OTHER) as asked, driver(said(page(b"", status, elsewhere))):
        found, words = live.Drivers().ask(POD, "secret")
        assert live.scale(POD, "secret", 2).endswith(f"HTTP {status[:3]}")
    assert (found, words) == (None, f"the driver does not answer: HTTP {status[:3]}")
    assert asked == []
