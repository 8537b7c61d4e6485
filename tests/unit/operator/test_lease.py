# SPDX-License-Identifier: Apache-2.0
"""R16: of two operators one acts. Time is the test's; the API server is played by hand."""

from __future__ import annotations

import copy
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from kubernetes import client

from lib.apiserver import write_kubeconfig
from streamapp_operator.cluster.claims import CLAIM_SECONDS, RENEW_SECONDS, Claims
from streamapp_operator.cluster.errors import KubeError
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.cluster.lease import (
    ANSWER_SECONDS,
    ARRIVAL_SECONDS,
    LEASE_SECONDS,
    MARGIN_SECONDS,
    Lease,
    NotHolder,
)
from streamapp_operator.render.meta import Object


class Leases(Kube):
    """One Lease, and a clock. `slow` is called while an answer is on its way."""

    def __init__(self) -> None:
        super().__init__(client.ApiClient(client.Configuration()))
        self.now = 0.0
        self.found: Object | None = None
        self.version = 0
        self.slow: Callable[[], None] = lambda: None
        self.fails = False

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        if self.fails:
            raise KubeError(0, "no answer")
        before, self.slow = self.slow, lambda: None
        before()
        return copy.deepcopy(self.found)

    def create(self, wanted: Object) -> Object:
        return self._put(wanted)

    def replace(self, wanted: Object) -> Object:
        assert self.found is not None
        if wanted["metadata"]["resourceVersion"] != self.found["metadata"]["resourceVersion"]:
            raise KubeError(409, "it has changed")
        return self._put(wanted)

    def _put(self, wanted: Object) -> Object:
        self.version += 1
        self.found = copy.deepcopy(wanted)
        self.found["metadata"]["resourceVersion"] = str(self.version)
        return self.found

    def lease(self, identity: str) -> Lease:
        return Lease(self, "shop", "operator", identity, lambda: self.now)


def test_what_is_sent_is_over_before_another_one_takes_over() -> None:
    kube = Leases()
    lease = kube.lease("one")
    with pytest.raises(NotHolder):
        lease.require()
    assert lease.try_once()
    for moment in (0.0, 5.0, LEASE_SECONDS - MARGIN_SECONDS - 0.1):
        kube.now = moment
        assert moment + lease.require() == LEASE_SECONDS - ARRIVAL_SECONDS
    kube.now = LEASE_SECONDS - MARGIN_SECONDS
    with pytest.raises(NotHolder):
        lease.require()


def test_another_one_waits_until_it_has_not_been_renewed_for_its_time() -> None:
    kube = Leases()
    one, two = kube.lease("one"), kube.lease("two")
    assert one.try_once()
    kube.now = 5.0
    assert not two.try_once()
    kube.now = 5.0 + LEASE_SECONDS
    assert not two.try_once()
    kube.now += 0.1
    assert two.try_once()
    assert not one.try_once()


def test_time_in_which_an_answer_was_on_its_way_does_not_count_against_the_holder() -> None:
    """The holder renews at 8 s, and holds it until 23 s; the other one has asked at 0 s, and gets the answer at 9 s."""
    kube = Leases()
    one, two = kube.lease("one"), kube.lease("two")
    assert one.try_once()

    def renewed_meanwhile() -> None:
        kube.now = 8.0
        assert one.try_once()
        kube.now = 9.0

    kube.slow = renewed_meanwhile
    assert not two.try_once()
    kube.now = 9.0 + LEASE_SECONDS - 1
    assert not two.try_once()


def test_a_renewal_that_fails_leaves_time_for_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The question and the renewal take as long as they may, and fail."""
    kube = Leases()
    lease = kube.lease("one")
    held: list[bool] = []

    def failed(error: KubeError) -> None:
        kube.now += 2 * ANSWER_SECONDS
        held.append(lease.is_held)

    def wait(pause: float) -> None:
        kube.now += pause
        held.append(lease.is_held)
        kube.fails = len(held) == 1
        if len(held) == 4:
            lease.stop()

    monkeypatch.setattr(lease._stop, "wait", wait)
    lease.keep(failed)
    assert held == [True] * 4  # renewed, failed, before it asks again, renewed


# --- the connection ---------------------------------------------------------------------------------------------------


@contextmanager
def api_server(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[tuple[str, list[str]]]:
    """The server's address, and the methods of its requests."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append(self.command)
            answer(self)

        do_PUT = do_DELETE = do_PATCH = do_POST = do_GET

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()


def hang_up(request: BaseHTTPRequestHandler) -> None:
    request.connection.shutdown(socket.SHUT_RDWR)


def ask_to_come_back(request: BaseHTTPRequestHandler) -> None:
    request.send_response(429)
    request.send_header("Retry-After", "1")
    request.send_header("Content-Length", "0")
    request.end_headers()


@pytest.mark.parametrize(("answer", "code"), [(hang_up, 0), (ask_to_come_back, 429)])
def test_nothing_is_sent_twice_by_itself(
    answer: Callable[[BaseHTTPRequestHandler], None], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the second time the Lease may belong to another operator."""
    with api_server(answer) as (url, asked):
        monkeypatch.setattr(
            "kubernetes.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION",
            str(write_kubeconfig(tmp_path / "kubeconfig", url, "token")),
        )
        kube = Kube.connect()
        with pytest.raises(KubeError) as refused:
            kube.replace({"kind": "Lease", "metadata": {"namespace": "shop", "name": "x"}})
        with pytest.raises(KubeError):
            kube.delete("Pod", "shop", "x", "uid")
        assert refused.value.code == code
        assert asked == ["PUT", "DELETE"]


def test_an_answer_to_a_write_is_waited_for_while_the_lease_lasts() -> None:
    waited: list[float] = []

    class Api:
        def param_serialize(self, *_: object, **__: object) -> tuple[()]:
            return ()

        def call_api(self, *, _request_timeout: float) -> object:
            waited.append(_request_timeout)
            return Answer()

    class Answer:
        status = 200
        headers: dict[str, str] = {}

        def read(self) -> bytes:
            return json.dumps({}).encode()

    api: client.ApiClient = Api()  # type: ignore[assignment]
    kube = Kube(api, may_write=lambda: 4.5, seconds=7.0)
    lease: Object = {"kind": "Lease", "metadata": {"namespace": "shop", "name": "x"}}
    kube.replace(lease)
    kube.get("Lease", "shop", "x")
    kube.may_write = lambda: 12.0
    kube.apply(lease)
    assert waited == [4.5, 7.0, 7.0]


# --- namespaces -----------------------------------------------------------------------------------------------------


def test_a_namespace_is_run_by_one_release_until_that_is_gone() -> None:
    kube, told = Leases(), list[str]()
    ours = Claims(kube, "a/operator", told.append, lambda: kube.now)
    theirs = Claims(kube, "b/operator", told.append, lambda: kube.now)
    again = Claims(kube, "a/operator", told.append, lambda: kube.now)
    with pytest.raises(NotHolder):
        ours.require("shop")
    assert ours.holds("shop")
    assert not theirs.holds("shop")
    (sentence,) = told
    assert sentence.startswith("namespace shop is not watched: the release a/operator runs the apps there")
    assert (ours.contested, theirs.contested) == (0, 1)
    with pytest.raises(NotHolder):
        theirs.require("shop")
    for _ in range(20):
        kube.now += RENEW_SECONDS
        ours.renew({"shop"})
        assert ours.holds("shop")
        assert not theirs.holds("shop")
    assert again.holds("shop"), "another operator of the same release goes on at once"
    # The first one ends. Before another one may act, it acts no more.
    last = kube.now
    while not theirs.holds("shop"):
        kube.now += 1
    assert kube.now - last > CLAIM_SECONDS
    with pytest.raises(NotHolder):
        ours.require("shop")
    assert theirs.contested == 0
    assert len(told) == 1


def test_a_namespace_without_apps_is_free_after_a_while() -> None:
    kube = Leases()
    ours, theirs = (Claims(kube, name, clock=lambda: kube.now) for name in ("a/operator", "b/operator"))
    assert ours.holds("shop")
    version = kube.version
    ours.renew(set())
    assert kube.version == version
    assert not theirs.holds("shop")
    kube.now += CLAIM_SECONDS + 1
    assert theirs.holds("shop")


def test_what_is_another_ones_is_asked_for_now_and_then_and_not_for_each_app() -> None:
    kube = Leases()
    ours, theirs = (Claims(kube, name, clock=lambda: kube.now) for name in ("a/operator", "b/operator"))
    assert ours.holds("shop")
    asked: list[float] = []
    for _ in range(100):
        kube.slow = lambda: asked.append(kube.now)
        assert not theirs.holds("shop")
    assert asked == [0.0]


@pytest.mark.parametrize("words", ["because it is being terminated", "leases.coordination.k8s.io is forbidden"])
def test_where_a_lease_may_not_be_made_nobody_is_kept_from_work(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The namespace is being deleted, or somebody has made the rights by hand."""
    kube = Leases()

    def refuse(wanted: Object) -> Object:
        raise KubeError(403, words)

    monkeypatch.setattr(kube, "create", refuse)
    claims = Claims(kube, "a/operator", clock=lambda: kube.now)
    assert claims.holds("shop")
    assert claims.require("shop") > 0
