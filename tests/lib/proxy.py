# SPDX-License-Identifier: Apache-2.0
"""A proxy before an API server, which keeps, loses, delays and refuses requests and events as a test asks for.

A plan, which is a function, chooses what the proxy does to a request or to an event; plans are seeded, so a run can be
repeated. Clients speak plain HTTP with it, and send their own token.
"""

from __future__ import annotations

import http.client
import json
import random
import ssl
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import urlsplit

from lib.apiserver import write_kubeconfig

Word = TypeVar("Word")

WRITES = ("POST", "PUT", "PATCH", "DELETE")
WATCH = "WATCH"
"""The method that a plan gets instead of GET when a watch is opened."""
_OF_ONE_HOP = ("connection", "transfer-encoding", "content-length", "keep-alive", "host")


# --- requests ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """A fault that meets one request."""

    name: str
    code: int | None = None
    """HTTP's code of the answer; None: there is no answer, the connection ends."""
    reaches: bool = False
    """Whether the API server gets and processes the request all the same."""
    seconds: float = 0.0
    """The seconds that pass before the end."""
    late: bool = False
    """Whether they pass before the API server gets the request."""


def faults(timeout: float) -> tuple[Fault, ...]:
    """All kinds of faults, for a client that waits so long for an answer."""
    return (
        Fault("conflict", 409),
        Fault("too-many", 429),
        Fault("failed", 500),
        Fault("failed-afterwards", 500, reaches=True),
        Fault("unavailable", 503),
        Fault("cut-off", None),
        Fault("cut-off-afterwards", None, reaches=True),
        Fault("timeout", None, seconds=2 * timeout),
        Fault("timeout-afterwards", None, reaches=True, seconds=2 * timeout),
        Fault("too-late", None, reaches=True, seconds=2 * timeout, late=True),
    )


Plan = Callable[[str, str], Fault | None]
"""A function from method and path of a request to its fault; None: it is passed on."""


def unharmed(method: str, path: str) -> Fault | None:
    return None


class Sometimes:
    """Meets a share of the requests of each method with one of the faults.

    Args:
        chooser: chooses requests and faults.
        kinds: the faults to choose from.
        share: of a method's requests, by method; of the others none.
    """

    def __init__(self, chooser: random.Random, kinds: tuple[Fault, ...], share: dict[str, float]) -> None:
        self._chooser, self._kinds, self._share = chooser, kinds, share
        self._lock = threading.Lock()

    def __call__(self, method: str, path: str) -> Fault | None:
        with self._lock:
            if self._chooser.random() >= self._share.get(method, 0.0):
                return None
            return self._chooser.choice(self._kinds)


# --- events -----------------------------------------------------------------------------------------------------------

Gossip = Callable[[bytes], Iterator[bytes]]
"""A function from a line of a watch to the lines that its reader gets instead. StopWatch ends the watch."""


class StopWatch(Exception):
    """Ends the watch, as when a load balancer loses patience."""


def faithful(line: bytes) -> Iterator[bytes]:
    yield line


def silent(line: bytes) -> Iterator[bytes]:
    """Keeps the connection open for ever, and passes no event on."""
    yield from ()


def gone(line: bytes) -> Iterator[bytes]:
    """Answers instead of any event that the API server has forgotten the client's position."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}
    yield json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
    raise StopWatch


def cut(line: bytes) -> Iterator[bytes]:
    """Ends the connection when there would be an event."""
    yield from ()
    raise StopWatch


class Forgetful:
    """Loses some events, repeats others, and delays others with everything behind them."""

    def __init__(self, chooser: random.Random, latest: float) -> None:
        self._chooser, self._latest = chooser, latest
        self.done: Counter[str] = Counter()

    def __call__(self, line: bytes) -> Iterator[bytes]:
        what = self._chooser.choice(("lost", "lost", "twice", "late", "kept"))
        self.done[what] += 1
        if what == "late":
            time.sleep(self._chooser.uniform(0, self._latest))
        if what != "lost":
            yield line
        if what == "twice":
            yield line


# --- the proxy --------------------------------------------------------------------------------------------------------


class Proxy:
    """A proxy; `with` starts and ends it.

    Args:
        upstream: address of the API server: https://HOST:PORT.
        plan: the plan for requests.
        gossip: the plan for the events of watches.
    """

    def __init__(self, upstream: str, plan: Plan = unharmed, gossip: Gossip = faithful) -> None:
        self.upstream = urlsplit(upstream)
        self.plan, self.gossip = plan, gossip
        self.after: Callable[[str, str], None] = lambda method, path: None
        """Called with method and path of each request that the API server has answered, before its client gets the
        answer."""
        self.sent: Counter[str] = Counter()
        """Requests that clients have made, by method; watches are not among them."""
        self.for_leases: Counter[str] = Counter()
        """Those of them that are about Leases, by method."""
        self.faults: Counter[tuple[str, str]] = Counter()
        """The faults that have happened, by method and name."""
        self.events: Counter[str] = Counter()
        """The events of watches: `came` from the API server, `told` to clients."""
        self.under_way = 0
        """Requests that are neither answered nor ended; watches are none of them."""
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def writes(self) -> int:
        """Writes that clients have sent, whatever became of them, without those of Leases."""
        return sum(self.sent[method] - self.for_leases[method] for method in WRITES)

    def kubeconfig_of(self, folder: Path, token: str) -> Path:
        """A kubeconfig with which a client uses this proxy with that token."""
        return write_kubeconfig(folder / "kubeconfig", self.url, token)

    def note(self, counter: Counter[Word], what: Word) -> None:
        with self._lock:
            counter[what] += 1

    @contextmanager
    def one(self, method: str, path: str) -> Iterator[None]:
        """Counts a request as under way, from its beginning to its end."""
        with self._lock:
            self.sent[method] += 1
            self.for_leases[method] += "/leases" in path
            self.under_way += 1
        try:
            yield
        finally:
            with self._lock:
                self.under_way -= 1

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, name="proxy", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    proxy: Proxy

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that does not wait for its answer is no error here."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    """One client's connection, and one to the API server for it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server
    _upstream: http.client.HTTPSConnection | None = None

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET

    def finish(self) -> None:
        super().finish()
        self._forget()

    def _serve(self) -> None:
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if "watch=true" not in self.path:
            with proxy.one(self.command, self.path):
                self._pass_on(body, self._fault(self.command))
        elif (fault := self._fault(WATCH)) is None:
            self._watch()
        else:
            self._refuse(fault)

    def _fault(self, method: str) -> Fault | None:
        """The plan's fault for this request, which is counted."""
        proxy = self.server.proxy
        fault = proxy.plan(method, self.path)
        if fault is not None:
            proxy.note(proxy.faults, (method, fault.name))
        return fault

    def _pass_on(self, body: bytes, fault: Fault | None) -> None:
        proxy = self.server.proxy
        if fault is not None and fault.late:
            time.sleep(fault.seconds)
        answer, content = None, b""
        if fault is None or fault.reaches:
            answer = self._request(body)
            content = answer.read()
            proxy.after(self.command, self.path)
        if fault is None:
            assert answer is not None
            headers = [(name, value) for name, value in answer.getheaders() if name.lower() not in _OF_ONE_HOP]
            self._answer(answer.status, headers, content)
            return
        if not fault.late:
            time.sleep(fault.seconds)
        self._refuse(fault)

    def _refuse(self, fault: Fault) -> None:
        if fault.code is None:
            self.close_connection = True
        else:
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": fault.code}
            said = json.dumps({**status, "message": f"the proxy's {fault.name}"}).encode()
            headers = [("Content-Type", "application/json")]
            self._answer(fault.code, [*headers, ("Retry-After", "1")] if fault.code == 429 else headers, said)

    def _answer(self, code: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response(code)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _watch(self) -> None:
        """Passes each line to the gossip as it comes, and its lines on to the client."""
        proxy = self.server.proxy
        answer = self._request(b"")
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.getheader("Content-Type") or "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        try:
            while line := answer.readline():
                proxy.note(proxy.events, "came")
                for told in proxy.gossip(line):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(told), told))
                    self.wfile.flush()
                    proxy.note(proxy.events, "told")
            if proxy.gossip is silent:
                self.rfile.read(1)  # until the client goes
        except StopWatch:
            pass
        except OSError:  # the client has gone
            self.close_connection = True
            return
        finally:
            self._forget()
        self.wfile.write(b"0\r\n\r\n")

    def _request(self, body: bytes) -> http.client.HTTPResponse:
        if self._upstream is None:
            upstream = self.server.proxy.upstream
            trusting = ssl._create_unverified_context()
            self._upstream = http.client.HTTPSConnection(
                str(upstream.hostname), upstream.port, timeout=600, context=trusting
            )
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_ONE_HOP}
        self._upstream.request(self.command, self.path, body or None, headers)
        return self._upstream.getresponse()

    def _forget(self) -> None:
        if self._upstream is not None:
            self._upstream.close()
            self._upstream = None
