# SPDX-License-Identifier: Apache-2.0
"""The operator's answers to probes and scrapers."""

from __future__ import annotations

import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import pytest
from kubernetes import config

from lib.apiserver import ApiServer
from lib.operator import Apps
from lib.wait import until
from streamapp.kafka.ports import free_ports
from streamapp_operator.cluster.cache import Cache
from streamapp_operator.cluster.informer import Informer
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.cluster.lease import Lease
from streamapp_operator.controller import HANGS_SECONDS, Controller
from streamapp_operator.health import health, serve

pytestmark = pytest.mark.cluster


class Operator:
    """A controller and its Lease, each with a connection of its own."""

    def __init__(self, api: ApiServer, apps: Apps, identity: str = "one") -> None:
        self.now = 0.0
        self.lease_kube = connect(api)
        self.lease = Lease(self.lease_kube, apps.namespace, "operator", identity)
        self.controller = Controller(connect(api), apps.settings, self.lease, clock=lambda: self.now)

    @property
    def phase(self) -> str:
        return str(health(self.controller, self.lease)["phase"])

    def value(self, metric: str, /, **labels: str) -> float | None:
        return self.controller.metrics.registry.get_sample_value(metric, labels)

    @contextmanager
    def started(self) -> Iterator[Operator]:
        self.controller.start()
        try:
            yield self
        finally:
            self.controller.stop()


def connect(api: ApiServer) -> Kube:
    return Kube(config.new_client_from_config(str(api.kubeconfig)))


@pytest.fixture
def operator(api: ApiServer, apps: Apps) -> Operator:
    return Operator(api, apps)


def test_it_is_ready_once_it_knows_who_holds_the_lease(api: ApiServer, apps: Apps, operator: Operator) -> None:
    assert operator.phase == "Starting"
    assert operator.value("streamapp_operator_is_leader") == 0
    with operator.started():
        until(lambda: operator.phase == "Running", 10, "the first is ready")
        assert operator.value("streamapp_operator_is_leader") == 1
        second = Operator(api, apps, "two")
        with second.started():
            until(lambda: second.phase == "Running", 10, "the second is ready too")
            assert second.value("streamapp_operator_is_leader") == 0


def test_pages(operator: Operator) -> None:
    (port,) = free_ports(1)
    server = serve(operator.controller, operator.lease, port)

    def page(path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    try:
        assert page("healthz") == (200, "Starting")
        assert page("readyz") == (503, "Starting")
        with operator.started():
            until(lambda: page("readyz") == (200, "Running"), 10, "it is ready")
            assert "streamapp_operator_is_leader 1.0" in page("metrics")[1]
            assert '"leader": true' in page("status")[1]
    finally:
        server.stop()


def test_what_was_done_is_counted(apps: Apps, operator: Operator) -> None:
    apps.create()
    with operator.started():
        operator.controller.queue.add((apps.namespace, "word-count"))
        took = "streamapp_operator_reconcile_duration_seconds_count"
        until(lambda: operator.value(took, result="done"), 30, "it was looked at")
        assert operator.value("streamapp_operator_api_requests_total", method="PATCH", code="201")
        assert operator.value("streamapp_operator_queue_depth") == 0


def test_apps_are_shown_as_long_as_they_are_there(apps: Apps, operator: Operator) -> None:
    apps.create(autoscaling={"minReplicas": 1, "maxReplicas": 4})
    apps.settle()
    key = (apps.namespace, "word-count")
    labels = dict(zip(("namespace", "name"), key, strict=True))
    operator.controller.metrics.apps.see(key, apps.get("StreamApp", "word-count"))
    shown = {"phase": "Pending", "ready": "False", "reason": "DriverPending"}
    assert operator.value("streamapp_resource_info", **labels, **shown) == 1
    assert operator.value("streamapp_resource_max_replicas", **labels) == 4
    body = apps.get("StreamApp", "word-count")
    apps.kube.delete("StreamApp", apps.namespace, "word-count", body["metadata"]["uid"])
    with operator.started():
        operator.controller.queue.add(key)
        until(lambda: operator.value("streamapp_resource_replicas", **labels) is None, 30, "it is forgotten")


def test_one_that_stands_by_forgets_apps_too(api: ApiServer, apps: Apps, operator: Operator) -> None:
    kube = connect(api)
    cache = Cache(kube)
    controller = Controller(kube, apps.settings, operator.lease, cache=cache)  # not started: it holds no Lease
    informer = Informer(kube, cache, [apps.namespace], controller.see)
    apps.create()
    labels = {"namespace": apps.namespace, "name": "word-count"}

    def shown() -> float | None:
        return controller.metrics.registry.get_sample_value("streamapp_resource_replicas", labels)

    informer.resync()
    assert shown() == 0
    body = apps.get("StreamApp", "word-count")
    apps.kube.delete("StreamApp", apps.namespace, "word-count", body["metadata"]["uid"])
    informer.resync()
    assert shown() is None


def test_work_that_hangs_is_a_failure(api: ApiServer, apps: Apps, operator: Operator) -> None:
    with operator.started():
        until(lambda: operator.phase == "Running", 10, "it is ready")
        server = api._processes["kube-apiserver"]
        server.send_signal(signal.SIGSTOP)
        try:
            operator.controller.queue.add((apps.namespace, "word-count"))
            until(lambda: operator.controller._under_way, 5, "the work has begun")
            assert operator.phase == "Running"
            operator.now += HANGS_SECONDS + 1
            assert operator.controller.fault == f"the work on {apps.namespace}/word-count hangs"
            assert operator.phase == "Failed"
        finally:
            server.send_signal(signal.SIGCONT)
        until(lambda: not operator.controller.fault, 30, "the work has ended")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_has_ended_is_a_failure(operator: Operator) -> None:
    def fail() -> NoReturn:
        raise RuntimeError("planted")

    operator.lease_kube.may_write = fail
    with operator.started():
        until(lambda: operator.phase == "Failed", 10, "it is noticed")
        assert operator.controller.fault == "thread lease has ended"
