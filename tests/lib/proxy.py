# SPDX-License-Identifier: Apache-2.0
"""A proxy before an API server, which keeps, loses, delays and refuses what it is told to.

What it does to a request or to an event is chosen by a plan, which is a function; plans are seeded, so a run can be had
again. Clients speak plain HTTP with it, and bear their own token.
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
"""What a plan is told instead of GET when a watch is opened."""
_OF_ONE_HOP = ("connection", "transfer-encoding", "content-length", "keep-alive", "host")


# --- what becomes of a request ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """What becomes of one request that is not simply passed on."""

    name: str
    code: int | None = None
    """HTTP's, of the answer; None: there is no answer, the connection ends."""
    reaches: bool = False
    """Whether the API server gets the request nevertheless, and does it."""
    seconds: float = 0.0
    """That pass before the end."""
    late: bool = False
    """Whether they pass before the API server gets the request."""


def faults(timeout: float) -> tuple[Fault, ...]:
    """All kinds there are, for a client that waits so long for an answer."""
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
"""From method and path of a request to what becomes of it; None: it is passed on."""


def unharmed(method: str, path: str) -> Fault | None:
    return None


class Sometimes:
    """Meets a share of the requests of each method with one of the faults.

    Args:
        chooser: of requests and faults.
        kinds: of faults.
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


# --- what becomes of an event -----------------------------------------------------------------------------------------

Gossip = Callable[[bytes], Iterator[bytes]]
"""From a line of a watch to the lines that its reader gets instead. StopWatch ends the watch."""


class StopWatch(Exception):
    """The watch ends here, as when a load balancer loses patience."""


def faithful(line: bytes) -> Iterator[bytes]:
    yield line


def silent(line: bytes) -> Iterator[bytes]:
    """The connection stays, for ever, and nothing comes."""
    yield from ()


def gone(line: bytes) -> Iterator[bytes]:
    """Instead of any event the API server has forgotten where we were."""
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}
    yield json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"
    raise StopWatch


def cut(line: bytes) -> Iterator[bytes]:
    """The connection ends when there would be an event."""
    yield from ()
    raise StopWatch


class Forgetful:
    """Some events are lost, others come twice, or a while later and everything behind them too."""

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
    """`with` starts and ends it.

    Args:
        upstream: address of the API server: https://HOST:PORT.
        plan: for requests.
        gossip: for the events of watches.
    """

    def __init__(self, upstream: str, plan: Plan = unharmed, gossip: Gossip = faithful) -> None:
        self.upstream = urlsplit(upstream)
        self.plan, self.gossip = plan, gossip
        self.after: Callable[[str, str], None] = lambda method, path: None
        """Told method and path of each request that the API server has answered, before its client hears of it."""
        self.sent: Counter[str] = Counter()
        """Requests that clients have made, by method; watches are not among them."""
        self.for_leases: Counter[str] = Counter()
        """Those of them that are about Leases."""
        self.faults: Counter[tuple[str, str]] = Counter()
        """That have happened, by method and name."""
        self.events: Counter[str] = Counter()
        """Of watches: `came` from the API server, `told` to clients."""
        self.under_way = 0
        """Requests that are neither answered nor ended; watches are none of them."""
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def writes(self) -> int:
        """That clients have sent, whatever became of them, but for those of Leases."""
        return sum(self.sent[method] - self.for_leases[method] for method in WRITES)

    def kubeconfig_of(self, folder: Path, token: str) -> Path:
        """A file by which a client goes through this proxy, as whoever the token is."""
        return write_kubeconfig(folder / "kubeconfig", self.url, token)

    def note(self, counter: Counter[Word], what: Word) -> None:
        with self._lock:
            counter[what] += 1

    @contextmanager
    def one(self, method: str, path: str) -> Iterator[None]:
        """A request, from its beginning to its end."""
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
        """What the plan has for this request; it is noted."""
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
        """Each line comes as it is; how it goes on is the gossip's."""
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
