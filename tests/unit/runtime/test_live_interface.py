# SPDX-License-Identifier: Apache-2.0
"""In an app that the operator runs, the live interface answers only requests with the token."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from lib.wait import until
from streamapp.http.bounded import LARGEST_HEAD, MOST_CONNECTIONS, BoundedHandler
from streamapp.http.server import (
    LARGEST_BODY,
    MOST_QUESTIONS,
    MOST_REPLICAS,
    OPEN_PAGES,
    Busy,
    NoSuchPage,
    StatusServer,
)
from streamapp.question import Question


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    file = tmp_path / "token"
    file.write_text("swordfish\n")
    return file


@pytest.fixture
def url(token_file: Path) -> Iterator[str]:
    server = StatusServer(lambda: {"phase": "Running"}, CollectorRegistry(), token_file=token_file)
    server.start()
    yield server.url
    server.stop()


def answer(url: str, authorization: str | None = None, timeout: float = 5) -> int:
    request = urllib.request.Request(url, headers={"Authorization": authorization} if authorization else {})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as found:
            return int(found.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_status_needs_the_token(url: str) -> None:
    assert answer(url + "/status") == 401
    assert answer(url + "/status", "Bearer sword") == 401
    assert answer(url + "/status", "Bearer ") == 401
    assert answer(url + "/status", "Bearer swordfish") == 200


def test_pages_that_are_not_there_are_not_told_apart_without_it(url: str) -> None:
    assert answer(url + "/nothing") == 401
    assert answer(url + "/nothing", "Bearer swordfish") == 404


@pytest.mark.parametrize("page", OPEN_PAGES)
def test_probes_and_scrapers_need_none(url: str, page: str) -> None:
    assert answer(url + page) == 200


def test_a_changed_token_counts_at_once(url: str, token_file: Path) -> None:
    token_file.write_text("halibut")
    assert answer(url + "/status", "Bearer swordfish") == 401
    assert answer(url + "/status", "Bearer halibut") == 200


def test_without_a_token_nobody_is_let_in(url: str, token_file: Path) -> None:
    token_file.write_text("")
    assert answer(url + "/status", "Bearer ") == 401
    token_file.unlink()
    assert answer(url + "/status", "Bearer swordfish") == 401


@pytest.mark.parametrize(
    ("phase", "healthy", "ready"),
    [
        ("Starting", 200, 503),
        ("Restoring", 200, 503),
        ("Running", 200, 200),
        ("Restarting", 200, 503),
        ("Failed", 503, 503),
    ],
)
def test_probes_follow_the_phase(phase: str, healthy: int, ready: int) -> None:
    server = StatusServer(lambda: {"phase": phase}, CollectorRegistry())
    server.start()
    try:
        assert (answer(server.url + "/healthz"), answer(server.url + "/readyz")) == (healthy, ready)
    finally:
        server.stop()


# --- /stores ------------------------------------------------------------------------------------------------


class Asked:
    """A store that answers with the question."""

    def listed(self) -> list[dict[str, Any]]:
        return [{"name": "counts"}]

    def answer(self, question: Question) -> dict[str, Any]:
        if question.store != "counts":
            raise NoSuchPage(f"there is no store '{question.store}'")
        if not question.key:
            raise Busy("ask again")
        return {"rows": [list(question.key)]}


@pytest.fixture
def asked(token_file: Path) -> Iterator[str]:
    phase = {"phase": "Running"}
    server = StatusServer(lambda: phase, CollectorRegistry(), token_file=token_file, tables=Asked())
    server.start()
    yield server.url
    server.stop()


@pytest.mark.parametrize("page", ["/stores", "/stores/counts/be", "/stores/counts?key=be", "/stores/nothing"])
def test_state_is_told_to_nobody_without_the_token(asked: str, page: str) -> None:
    assert answer(asked + page) == 401
    assert answer(asked + page, "Bearer sword") == 401
    assert answer(asked + page, "Bearer swordfish") == (404 if "nothing" in page else 200)


def test_questions_that_cannot_be_answered(asked: str) -> None:
    assert answer(asked + "/stores/counts?limit=10001", "Bearer swordfish") == 400
    assert answer(asked + "/stores/counts", "Bearer swordfish") == 503


# --- PUT /replicas ------------------------------------------------------------------------------------------


class Scaled:
    """An app that at once has as many replicas as it is asked for."""

    def __init__(self, token_file: Path, fewest: int = 0) -> None:
        self.replicas = {"wanted": 1, "running": 1}
        self.server = StatusServer(
            lambda: {"phase": "Running", "replicas": self.replicas},
            CollectorRegistry(),
            token_file=token_file,
            scale=self._scale,
            fewest=fewest,
        )
        self.server.start()

    def _scale(self, count: int) -> None:
        self.replicas = {"wanted": count, "running": count}

    def put(self, body: bytes, token: str = "swordfish", page: str = "/replicas") -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"}
        request = urllib.request.Request(self.server.url + page, body, headers, method="PUT")
        try:
            with urllib.request.urlopen(request, timeout=5) as found:
                return int(found.status), found.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture
def app(token_file: Path) -> Iterator[Scaled]:
    made = Scaled(token_file)
    yield made
    made.server.stop()


def test_another_number_of_replicas(app: Scaled) -> None:
    code, said = app.put(b'{"replicas": 3}')
    assert (code, json.loads(said)) == (200, {"wanted": 3, "running": 3})
    assert app.put(b'{"replicas": 0}')[0] == 200
    assert app.replicas["wanted"] == 0


def test_an_app_that_nobody_would_scale_up_again_keeps_a_replica(token_file: Path) -> None:
    alone = Scaled(token_file, fewest=1)
    try:
        code, said = alone.put(b'{"replicas": 0}')
        assert (code, alone.replicas["wanted"]) == (400, 1)
        assert "would run and process nothing; stop it" in said
        assert alone.put(b'{"replicas": 1}')[0] == 200
    finally:
        alone.server.stop()


def test_nobody_scales_without_the_token(app: Scaled) -> None:
    assert app.put(b'{"replicas": 3}', token="halibut")[0] == 401
    assert app.replicas["wanted"] == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"3",
        b"{}",
        b"[]",
        b'{"replicas": -1}',
        b'{"replicas": 1.5}',
        b'{"replicas": true}',
        b'{"replicas": "2"}',
        b'{"replicas": %d}' % (MOST_REPLICAS + 1),
        b"{" * 500,
        b'{"replicas": 2}' + b" " * LARGEST_BODY,
    ],
)
def test_what_is_no_number_of_replicas_is_refused(app: Scaled, body: bytes) -> None:
    code, said = app.put(body)
    assert code == 400
    assert '{"replicas": 3}' in said
    assert app.replicas["wanted"] == 1


@pytest.mark.parametrize("length", ["²", "-1", "1e3", "9" * 40])
def test_a_length_that_is_none_ends_the_connection(app: Scaled, length: str) -> None:
    asked = f"PUT /replicas HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n\r\n".encode("latin-1")
    with connect(app.server.url, asked) as connection:
        assert all_of(connection).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize("head", ["Content-Length: {length}", "Transfer-Encoding: chunked"])
def test_a_body_is_not_taken_for_the_next_request(app: Scaled, head: str) -> None:
    told = "Host: h\r\nAuthorization: Bearer swordfish\r\nContent-Length: 15"
    inner = f'PUT /replicas HTTP/1.1\r\n{told}\r\n\r\n{{"replicas": 7}}'.encode()
    for method in ("GET", "PUT"):
        asked = f"{method} /healthz HTTP/1.1\r\nHost: h\r\n{head.format(length=len(inner))}\r\n\r\n".encode() + inner
        with connect(app.server.url, asked) as connection:
            connection.shutdown(socket.SHUT_WR)
            assert all_of(connection).count(b"HTTP/1.1 ") == 1
    assert app.replicas["wanted"] == 1


def test_nothing_else_can_be_set(app: Scaled) -> None:
    assert app.put(b'{"replicas": 3}', page="/status")[0] == 404


def test_an_app_in_threads_says_how_it_could_be_scaled(token_file: Path) -> None:
    server = StatusServer(lambda: {"phase": "Running"}, CollectorRegistry(), token_file=token_file)
    server.start()
    request = urllib.request.Request(
        server.url + "/replicas", b'{"replicas": 3}', {"Authorization": "Bearer swordfish"}, method="PUT"
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=5)
    assert refused.value.code == 409
    assert "--replicas" in refused.value.read().decode()
    server.stop()


# --- clients that ask too much, or nothing ------------------------------------------------------------------


def all_of(connection: socket.socket) -> bytes:
    """Reads until the other side hangs up; returns all of it."""
    found = b""
    while piece := connection.recv(65536):
        found += piece
    return found


def connect(url: str, say: bytes = b"") -> socket.socket:
    host, _, port = url.removeprefix("http://").rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    connection.sendall(say)
    return connection


def is_hung_up(connection: socket.socket) -> bool:
    """Waits until something comes, or the end; raises TimeoutError when neither does."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def threads() -> int:
    """The threads that serve a connection."""
    return sum("process_request" in thread.name for thread in threading.enumerate())


@pytest.mark.parametrize(
    "said",
    [b"", b"GET /healthz HTTP/1.1\r\nHost: us\r\n", b"PUT /replicas HTTP/1.1\r\nContent-Length: 10\r\n\r\n{"],
    ids=["nothing", "half-a-head", "half-a-body"],
)
def test_who_asks_nothing_makes_room_for_probes(url: str, said: bytes) -> None:
    idle = [connect(url, said) for _ in range(MOST_CONNECTIONS + 10)]
    try:
        for _ in range(20):
            assert answer(url + "/healthz") == 200
        assert all(is_hung_up(connection) for connection in idle[:10])
        until(lambda: threads() <= MOST_CONNECTIONS, 20, "no more threads than connections")
        idle[-1].setblocking(False)
        with pytest.raises(BlockingIOError):  # the youngest are left alone
            idle[-1].recv(1)
    finally:
        for connection in idle:
            connection.close()


def test_who_asks_nothing_is_hung_up_on(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedHandler, "timeout", 0.2)
    with connect(url) as quiet, connect(url, b"GET /status HTTP/1.1\r\n") as slow:
        assert is_hung_up(quiet)
        assert is_hung_up(slow)


def test_a_head_is_read_up_to_a_length(url: str) -> None:
    line = b"X-More: " + b"x" * 1000 + b"\r\n"
    with connect(url, b"GET /healthz HTTP/1.1\r\n" + line * (LARGEST_HEAD // len(line)) + b"\r\n") as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")
    with connect(url, b"GET /healthz HTTP/1.1\r\n" + line * (LARGEST_HEAD // len(line) + 1) + b"\r\n") as connection:
        assert connection.recv(100).startswith(b"HTTP/1.1 431 ")


class Slow(Asked):
    """An interface whose answers wait."""

    def __init__(self) -> None:
        self.asked = threading.Semaphore(0)
        self.goes_on = threading.Event()

    def answer(self, question: Question) -> dict[str, Any]:
        self.asked.release()
        assert self.goes_on.wait(60)
        return {"rows": []}


def test_questions_about_stores_leave_connections_to_probes(token_file: Path) -> None:
    slow = Slow()
    phase = {"phase": "Running"}
    server = StatusServer(lambda: phase, CollectorRegistry(), token_file=token_file, tables=slow)
    server.start()
    try:
        with ThreadPoolExecutor(MOST_QUESTIONS) as askers:
            page = server.url + "/stores/counts"
            waiting = [askers.submit(answer, page, "Bearer swordfish", 60) for _ in range(MOST_QUESTIONS)]
            for _ in waiting:
                assert slow.asked.acquire(timeout=20)
            assert answer(page, "Bearer swordfish") == 503
            idle = [connect(server.url) for _ in range(MOST_CONNECTIONS)]
            assert answer(server.url + "/readyz") == 200
            slow.goes_on.set()
            # None of these has been hung up on to make room.
            assert [each.result() for each in waiting] == [200] * MOST_QUESTIONS
            assert answer(page, "Bearer swordfish") == 200
            for connection in idle:
                connection.close()
    finally:
        slow.goes_on.set()
        server.stop()
