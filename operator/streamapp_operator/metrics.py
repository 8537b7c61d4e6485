# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of the operator, and of what it knows about each app. All names stand in TABLE; tests compare
rules, dashboards and the manual with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streamapp_operator.crd.reading import status_in
from streamapp_operator.workqueue import Key

# name -> (kind, labels, meaning)
TABLE: Mapping[str, tuple[str, tuple[str, ...], str]] = {
    "streamapp_operator_is_leader": ("gauge", (), "1 while this operator holds the Lease and acts"),
    "streamapp_operator_queue_depth": ("gauge", (), "Apps that are due and wait for a worker"),
    "streamapp_operator_unwatched_namespaces": (
        "gauge",
        (),
        "Namespaces that are to be watched, and are missing, forbidden to the operator, or another release's",
    ),
    "streamapp_operator_reconcile_duration_seconds": (
        "histogram",
        ("result",),
        "Time that one look at one app took; result: done, failed (it is tried again)",
    ),
    "streamapp_operator_api_requests": (
        "counter",
        ("method", "code"),
        "Requests to the API server; code 0: there was no answer",
    ),
    "streamapp_resource_info": (
        "gauge",
        ("namespace", "name", "phase", "ready", "reason"),
        "Always 1: the phase of an app, and the status and reason of its condition Ready",
    ),
    "streamapp_resource_degraded": (
        "gauge",
        ("namespace", "name", "reason"),
        "1 while the condition Degraded of an app is True, else 0; with its reason",
    ),
    "streamapp_resource_replicas": ("gauge", ("namespace", "name"), "Executors that run"),
    "streamapp_resource_desired_replicas": ("gauge", ("namespace", "name"), "Executors that are wanted"),
    "streamapp_resource_max_replicas": (
        "gauge",
        ("namespace", "name"),
        "spec.autoscaling.maxReplicas, where it is there",
    ),
    "streamapp_resource_restarts": (
        "gauge",
        ("namespace", "name"),
        "How often the driver has ended unexpectedly since its pod was made",
    ),
    "streamapp_resource_lag": ("gauge", ("namespace", "name"), "Records not yet processed, as the status says"),
}

Sample = tuple[str, tuple[str, ...], float]
"""Name without its beginning, labels after namespace and name, value."""
_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """The metrics that `/metrics` shows. May be used from any thread.

    Args:
        queue_depth: asked at each scrape.
        is_leader: asked at each scrape.
    """

    def __init__(self, queue_depth: Callable[[], int], is_leader: Callable[[], bool]) -> None:
        self.registry = CollectorRegistry()
        self.apps = AppMetrics()
        self.registry.register(self.apps)
        self._gauge("streamapp_operator_queue_depth").set_function(queue_depth)
        self._gauge("streamapp_operator_is_leader").set_function(lambda: float(is_leader()))
        self._unwatched = self._gauge("streamapp_operator_unwatched_namespaces")
        name = "streamapp_operator_reconcile_duration_seconds"
        self._reconciles = Histogram(name, TABLE[name][2], TABLE[name][1], registry=self.registry, buckets=_BUCKETS)
        name = "streamapp_operator_api_requests"
        self._requests = Counter(name, TABLE[name][2], TABLE[name][1], registry=self.registry)

    def ask_unwatched(self, number: Callable[[], int]) -> None:
        """
        Args:
            number: of namespaces that are not watched and should be; asked at each scrape.
        """
        self._unwatched.set_function(number)

    @contextmanager
    def reconciling(self) -> Iterator[None]:
        """Measures one look at one app; it has failed when an exception goes through."""
        started, result = perf_counter(), "failed"
        try:
            yield
            result = "done"
        finally:
            self._reconciles.labels(result).observe(perf_counter() - started)

    def request(self, method: str, code: int) -> None:
        """Counts one request to the API server, by HTTP's code of the answer."""
        self._requests.labels(method, str(code)).inc()

    def _gauge(self, name: str) -> Gauge:
        return Gauge(name, TABLE[name][2], registry=self.registry)


class AppMetrics(Collector):
    """The metrics of each app as it was last seen."""

    def __init__(self) -> None:
        self._seen: dict[Key, tuple[Sample, ...]] = {}

    def see(self, key: Key, body: Mapping[str, Any] | None) -> None:
        """
        Args:
            key: of the app.
            body: its resource; None: there is no such app any more.
        """
        if body is None:
            self._seen.pop(key, None)
        else:
            self._seen[key] = tuple(_samples(body))

    def collect(self) -> Iterable[Metric]:
        families = {
            name: GaugeMetricFamily(name, meaning, labels=labels)
            for name, (_, labels, meaning) in TABLE.items()
            if name.startswith("streamapp_resource_")
        }
        for key, samples in list(self._seen.items()):
            for name, labels, value in samples:
                families[f"streamapp_resource_{name}"].add_metric((*key, *labels), value)
        return families.values()


def _samples(body: Mapping[str, Any]) -> Iterator[Sample]:
    status = status_in(body)
    conditions = {condition["type"]: condition for condition in status.get("conditions", ())}
    ready = conditions.get("Ready", {})
    yield "info", (status.get("phase", "Unknown"), ready.get("status", "Unknown"), ready.get("reason", "Unknown")), 1
    degraded = conditions.get("Degraded", {})
    yield "degraded", (degraded.get("reason", "Unknown"),), degraded.get("status") == "True"
    yield "replicas", (), status.get("replicas", 0)
    yield "desired_replicas", (), status.get("desiredReplicas", 0)
    yield "restarts", (), status.get("restarts", 0)
    if "total" in (lag := status.get("lag", {})):
        yield "lag", (), lag["total"]
    if "maxReplicas" in (scaling := body.get("spec", {}).get("autoscaling") or {}):
        yield "max_replicas", (), scaling["maxReplicas"]
