# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of a running app. The names stand in ONE table; dashboards and docs are checked against it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

COUNTER, GAUGE = CounterMetricFamily, GaugeMetricFamily

# name -> (kind, labels after `name`, meaning)
TABLE: Mapping[str, tuple[type, tuple[str, ...], str]] = {
    "streamapp_up": (GAUGE, (), "1 in phase Running, 0 while it starts, restores or restarts"),
    "streamapp_records_in": (COUNTER, ("subtopology",), "Records read from source topics"),
    "streamapp_records_out": (COUNTER, ("subtopology",), "Records written to topics"),
    "streamapp_bytes_out": (
        COUNTER,
        ("subtopology",),
        "Bytes of keys and values written, changelogs included",
    ),
    "streamapp_changelog_records": (COUNTER, ("subtopology",), "Records written to changelog topics"),
    "streamapp_late_records": (
        COUNTER,
        ("subtopology",),
        "Late changes to closed windows, dropped",
    ),
    "streamapp_lost_records": (
        COUNTER,
        ("subtopology",),
        "Offsets passed over as their records were gone before they were read",
    ),
    "streamapp_bad_records": (COUNTER, ("subtopology", "node"), "Records that could not be read as declared"),
    "streamapp_epochs": (COUNTER, ("subtopology",), "Epochs committed since the start"),
    "streamapp_epoch_duration_seconds": (
        GAUGE,
        ("subtopology", "step"),
        "Duration of the last epoch, by step",
    ),
    "streamapp_event_time_delay_seconds": (
        GAUGE,
        ("subtopology",),
        "How far the latest event time seen is behind the clock",
    ),
    "streamapp_consumer_lag": (GAUGE, ("topic", "partition"), "Committed records not yet processed"),
    "streamapp_expiring_records": (
        GAUGE,
        ("topic", "partition"),
        "Records not yet processed that are older than four fifths of what their topic keeps",
    ),
    "streamapp_store_rows": (GAUGE, ("store",), "Rows of a store, as RocksDB estimates them"),
    "streamapp_store_bytes": (GAUGE, ("store",), "Bytes of a store on local disk and in memory"),
    "streamapp_restore_done": (GAUGE, ("store",), "Changelog offsets passed by the last restore"),
    "streamapp_restore_total": (GAUGE, ("store",), "Changelog offsets the last restore has to pass"),
    "streamapp_restored_records": (COUNTER, ("store",), "Changelog offsets passed by all restores since the start"),
    "streamapp_restore_remaining_seconds": (GAUGE, ("store",), "Expected time until the restore ends"),
}


class AppMetrics(Collector):
    """Turns the status into metrics when they are asked for."""

    def __init__(self, status: Callable[[], Mapping[str, Any]]) -> None:
        self._status = status

    def collect(self) -> Iterable[Metric]:
        status = self._status()
        families = {
            name: kind(name, help_text, labels=("name", *labels)) for name, (kind, labels, help_text) in TABLE.items()
        }
        for name, labels, value in _samples(status):
            families[name].add_metric((status["name"], *labels), value)
        return families.values()


def registry(status: Callable[[], Mapping[str, Any]]) -> CollectorRegistry:
    """A registry of this app's metrics alone."""
    own = CollectorRegistry()
    own.register(AppMetrics(status))
    return own


def _samples(status: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...], float]]:
    yield "streamapp_up", (), float(status["phase"] == "Running")
    for part, totals in status.get("subTopologies", {}).items():
        yield "streamapp_records_in", (part,), totals["recordsIn"]
        yield "streamapp_records_out", (part,), totals["recordsOut"]
        yield "streamapp_bytes_out", (part,), totals["bytesOut"]
        yield "streamapp_changelog_records", (part,), totals["changelogRecords"]
        yield "streamapp_late_records", (part,), totals["lateRecords"]
        yield "streamapp_lost_records", (part,), totals["lostRecords"]
        yield "streamapp_epochs", (part,), totals["epochs"]
        for node, count in totals["badRecords"].items():
            yield "streamapp_bad_records", (part, node), count
        if totals["eventTimeDelaySeconds"] is not None:
            yield "streamapp_event_time_delay_seconds", (part,), totals["eventTimeDelaySeconds"]
        for step, millis in totals["epochMs"].items():
            yield "streamapp_epoch_duration_seconds", (part, step), millis / 1000
    for partition, lag in status.get("lag", {}).items():
        topic, _, number = partition.rpartition("/")
        yield "streamapp_consumer_lag", (topic, number), lag
    for partition, records in status.get("expiringRecords", {}).items():
        topic, _, number = partition.rpartition("/")
        yield "streamapp_expiring_records", (topic, number), records
    for store, size in status.get("stores", {}).items():
        yield "streamapp_store_rows", (store,), size["rowsEstimate"]
        yield "streamapp_store_bytes", (store,), size["bytes"]
    for store, restore in status.get("restore", {}).items():
        yield "streamapp_restore_done", (store,), restore["done"]
        yield "streamapp_restore_total", (store,), restore["total"]
        yield "streamapp_restored_records", (store,), restore["restored"]
        yield "streamapp_restore_remaining_seconds", (store,), restore["etaSeconds"]
