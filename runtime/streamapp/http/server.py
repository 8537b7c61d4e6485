# SPDX-License-Identifier: Apache-2.0
"""Health, status, metrics and stores of a running app, and the number of its replicas."""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import BoundedSemaphore, Thread
from typing import Any, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from streamapp.errors import InputError, RunError, StreamAppError
from streamapp.http.bounded import MOST_CONNECTIONS, BoundedHandler, BoundedServer
from streamapp.plain import read_json
from streamapp.question import PREFIX, Question, question_of

Status = Mapping[str, Any]

OPEN_PAGES = ("/healthz", "/readyz", "/metrics")
"""Pages that need no token: probes and scrapers have none, and they show no data of the user's."""
LARGEST_BODY = 1000
MOST_REPLICAS = 10_000
MOST_QUESTIONS = MOST_CONNECTIONS // 4
"""The most questions about stores that are being answered or wait: the other connections are left to probes."""


class NoSuchPage(InputError):
    """The requested page or store does not exist."""


class Busy(RunError):
    """The question cannot be answered now; later it can."""


class Tables(Protocol):
    """The tables that answer questions about stores; `answer` raises errors that have a code in `_CODES`."""

    def listed(self) -> list[dict[str, Any]]: ...

    def answer(self, question: Question) -> dict[str, Any]: ...


_CODES: tuple[tuple[type[StreamAppError], int], ...] = ((NoSuchPage, 404), (InputError, 400), (Busy, 503))


class StatusServer:
    """Serves `/healthz`, `/readyz`, `/status`, `/metrics` and `/stores`, and takes `PUT /replicas`.

    Args:
        status: gives the app's status as plain data; called once per request.
        registry: the metrics that `/metrics` shows.
        port: the port; 0 for any free one.
        host: the address to bind; on a laptop only this machine is served.
        token_file: holds the token that requests must bear (`Authorization: Bearer TOKEN`), except for OPEN_PAGES. It
            is read for each request, so that it may change. None: anyone may ask.
        scale: takes the number of replicas that are wanted from now on; None: the app has no replicas to scale.
        fewest: the fewest replicas that it may be scaled to; 0 where an operator may want none for a while.
        tables: answers questions about stores.
    """

    def __init__(
        self,
        status: Callable[[], Status],
        registry: CollectorRegistry,
        port: int = 0,
        host: str = "127.0.0.1",
        token_file: Path | None = None,
        scale: Callable[[int], None] | None = None,
        tables: Tables | None = None,
        fewest: int = 0,
    ) -> None:
        parts = {
            "status": staticmethod(status),
            "registry": registry,
            "token_file": token_file,
            "scale": None if scale is None else staticmethod(scale),
            "tables": tables,
            "fewest": fewest,
            "questions": BoundedSemaphore(MOST_QUESTIONS),
        }
        handler = type("Handler", (_Handler,), parts)
        self._server = BoundedServer((host, port), handler, ipv6=":" in host)
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


class _Handler(BoundedHandler):
    status: Callable[[], Status]
    registry: CollectorRegistry
    token_file: Path | None
    scale: Callable[[int], None] | None
    tables: Tables | None
    fewest: int
    questions: BoundedSemaphore

    def do_GET(self) -> None:
        self._body()
        self._while_answering(self._get)

    def do_PUT(self) -> None:
        body = self._body()
        self._while_answering(lambda: self._put(body))

    def _while_answering(self, answer: Callable[[], None]) -> None:
        self.server.answering(self.connection, True)
        try:
            answer()
        finally:
            self.server.answering(self.connection, False)

    def _get(self) -> None:
        path = self.path.split("?", 1)[0]
        if path not in OPEN_PAGES and not self._may_ask():
            self._answer(401, "text/plain", b"this page needs `Authorization: Bearer TOKEN`\n")
        elif path == "/healthz":
            phase = self.status()["phase"]
            self._answer(503 if phase == "Failed" else 200, "text/plain", phase.encode())
        elif path == "/readyz":
            phase = self.status()["phase"]
            self._answer(200 if phase == "Running" else 503, "text/plain", phase.encode())
        elif path == "/status":
            self._answer(200, "application/json", json.dumps(self.status(), indent=1).encode())
        elif path == "/metrics":
            self._answer(200, CONTENT_TYPE_LATEST, generate_latest(self.registry))
        elif self.tables is not None and (path == PREFIX or path.startswith(f"{PREFIX}/")):
            self._answer_about_stores(self.tables, path)
        else:
            known = "/healthz /readyz /status /metrics /stores"
            self._answer(404, "text/plain", f"no such page: {path}; there are {known}\n".encode())

    def _answer_about_stores(self, tables: Tables, path: str) -> None:
        try:
            whole = path.rstrip("/") == PREFIX
            answer = {"stores": tables.listed()} if whole else self._ask(tables, question_of(self.path))
        except StreamAppError as error:
            code = next((code for kind, code in _CODES if isinstance(error, kind)), 500)
            self._answer(code, "text/plain", f"{error}\n".encode())
        else:
            self._answer(200, "application/json", json.dumps(answer, ensure_ascii=False).encode())

    def _ask(self, tables: Tables, question: Question) -> dict[str, Any]:
        if not self.questions.acquire(blocking=False):
            raise Busy(f"{MOST_QUESTIONS} questions are being answered or wait for it; ask again")
        try:
            return tables.answer(question)
        finally:
            self.questions.release()

    def _put(self, body: bytes) -> None:
        path = self.path.split("?", 1)[0]
        if not self._may_ask():
            self._answer(401, "text/plain", b"this page needs `Authorization: Bearer TOKEN`\n")
        elif path != "/replicas":
            self._answer(404, "text/plain", f"{path} cannot be set; only /replicas can\n".encode())
        elif self.scale is None:
            words = "the app runs in threads of one process; start it with --replicas N to scale it\n"
            self._answer(409, "text/plain", words.encode())
        elif (count := _replicas_of(body)) is None:
            words = f'the body is {body[:100]!r}, and must be a number of replicas, e.g. {{"replicas": 3}}\n'
            self._answer(400, "text/plain", words.encode())
        elif count < self.fewest:
            words = f"with {count} replicas the app would run and process nothing; stop it, and start it again later\n"
            self._answer(400, "text/plain", words.encode())
        else:
            self.scale(count)
            self._answer(200, "application/json", json.dumps(self.status()["replicas"]).encode())

    def _body(self) -> bytes:
        """The request's body. It is read even if it is not needed: otherwise it would be taken for the next request."""
        length = self.headers.get("Content-Length", "0")
        # For Python, digits outside ASCII are digits too. A body in chunks is not read here.
        has_length = re.fullmatch(r"[0-9]{1,9}", length) is not None and "Transfer-Encoding" not in self.headers
        if has_length and int(length) <= LARGEST_BODY:
            return self.rfile.read(int(length))
        self.close_connection = True
        return b""

    def _may_ask(self) -> bool:
        if self.token_file is None:
            return True
        try:
            token = self.token_file.read_bytes().strip()
        except OSError:
            return False
        given = self.headers.get("Authorization", "").removeprefix("Bearer ").strip().encode()
        return bool(token) and hmac.compare_digest(given, token)

    def _answer(self, code: int, content_type: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        if code == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.server.answering(self.connection, False)  # a client that does not read the answer may be dropped
        self.wfile.write(body)


def _replicas_of(body: bytes) -> int | None:
    try:
        count = read_json(body)["replicas"]
    except (ValueError, TypeError, KeyError):
        return None
    return count if type(count) is int and 0 <= count <= MOST_REPLICAS else None
