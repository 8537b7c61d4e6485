# SPDX-License-Identifier: Apache-2.0
"""The status of a running app, gathered from Spark's progress reports and the JVM side."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from streamapp.plan import Plan
from streamapp.spark.jvm import java_class

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Offsets = dict[tuple[str, int], int]


@dataclass
class _Query:
    """Spark's last report about one sub-topology. Nothing is added up here, as Spark forgets reports."""

    seen_batch: int = -1
    rate: float = 0.0
    duration_ms: dict[str, int] = field(default_factory=dict)
    position: Offsets = field(default_factory=dict)


class Progress:
    """Collects the status; `/status` shows `snapshot()`. One thread collects and publishes, any may call `snapshot`."""

    def __init__(self, plan: Plan) -> None:
        self._bridge = java_class("DriverBridge")
        self._plan = plan
        self._queries = {part.name: _Query() for part in plan.subtopologies}
        self._started = time.time()
        self._snapshot: dict[str, Any] = {"name": plan.name, "phase": "Starting"}
        self.phase = "Starting"
        self.error: str | None = None

    def collect(self, queries: dict[str, StreamingQuery]) -> None:
        """Reads the last reports of the queries."""
        for name, query in queries.items():
            if (progress := query.lastProgress) is not None:
                self._see(self._queries[name], json.loads(progress.json))

    def snapshot(self) -> dict[str, Any]:
        """The state of things when they were last collected."""
        return {**self._snapshot, "phase": self.phase, "error": self.error}

    def positions(self) -> Offsets:
        """For each source partition the offset up to which EVERY sub-topology that reads it has committed.

        A partition is left out until each of them has reported its offset: an offset once shown must not go back.
        """
        lowest: Offsets = {}
        for where in {where for query in self._queries.values() for where in query.position}:
            readers = [self._queries[p.name] for p in self._plan.subtopologies if p.reads(where[0])]
            if all(where in query.position for query in readers):
                lowest[where] = min(query.position[where] for query in readers)
        return lowest

    def _see(self, query: _Query, progress: dict[str, Any]) -> None:
        worked = "addBatch" in progress["durationMs"]
        if progress["batchId"] < query.seen_batch or (progress["batchId"] == query.seen_batch and not worked):
            return
        for source in progress["sources"]:
            for topic, partitions in (_offsets(source["endOffset"]) or {}).items():
                for partition, offset in partitions.items():
                    query.position[topic, int(partition)] = offset
        if not worked or progress["batchId"] == query.seen_batch:
            return
        query.seen_batch = progress["batchId"]
        query.rate = progress.get("processedRowsPerSecond", 0.0) or 0.0
        query.duration_ms = progress["durationMs"]

    def publish(self, lag: dict[str, int] | None, expiring: dict[str, int]) -> None:
        """Makes a new snapshot of the collected status.

        Args:
            lag: records to be read, by TOPIC/PARTITION; None: not known yet.
            expiring: the number of these that their topic will soon delete.
        """
        epochs = json.loads(self._bridge.epochs())
        restores = json.loads(self._bridge.restores())
        parts: dict[str, Any] = {}
        stores: dict[str, Any] = {}
        for name, query in self._queries.items():
            totals = epochs.get(name, {})
            stores |= totals.pop("stores", {})
            parts[name] = {
                "recordsIn": totals.get("recordsIn", 0),
                "recordsPerSecond": round(query.rate, 1),
                "recordsOut": totals.get("records", 0),
                "changelogRecords": totals.get("changelogRecords", 0),
                "bytesOut": totals.get("bytes", 0),
                "epoch": totals.get("epoch", -1),
                "epochs": totals.get("epochs", 0),
                "epochMs": query.duration_ms,
                "busySeconds": totals.get("busyMs", 0) / 1000,
                "lateRecords": totals.get("lateRecords", 0),
                "lostRecords": totals.get("lostRecords", 0),
                "badRecords": totals.get("badRecords", {}),
                "watermark": _iso(totals.get("closedMs")),
                "eventTimeDelaySeconds": _seconds_since(_iso(totals.get("latestMs"))),
            }
        known = {} if lag is None else {"lag": lag, "totalLag": sum(lag.values())}
        self._snapshot = {
            "name": self._plan.name,
            "applicationId": self._plan.application_id,
            "uptimeSeconds": round(time.time() - self._started, 1),
            "recordsRead": _records_read(epochs),
            "recordsProcessed": _records_processed(epochs),
            "recordsWritten": sum(totals["records"] - totals["hopRecords"] for totals in epochs.values()),
            "subTopologies": parts,
            "stores": stores,
            "restore": _restore(restores["partitions"], restores["restored"]),
            "expiringRecords": expiring,
            **known,
        }


def _iso(millis: int | None) -> str | None:
    """
    >>> _iso(1_704_110_400_000)
    '2024-01-01T12:00:00.000Z'
    """
    if millis is None:
        return None
    return (_EPOCH + timedelta(milliseconds=millis)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _records_read(epochs: dict[str, dict[str, Any]]) -> int:
    """Records of the user's topics that have been processed; one that several sub-topologies read counts once.

    >>> _records_read({"a": {"read": {"orders": 3}}, "b": {"read": {"orders": 2, "payments": 5}}})
    8
    """
    most: dict[str, int] = {}
    for totals in epochs.values():
        for topics, records in totals["read"].items():
            most[topics] = max(most.get(topics, 0), records)
    return sum(most.values())


def _records_processed(epochs: dict[str, dict[str, Any]]) -> int:
    """Records of all topics, internal ones too, that every sub-topology that reads them has processed.

    >>> some, more = {"orders": 3}, {"orders": 2, "payments": 5}
    >>> _records_processed({"a": {"recordsIn": 3, "read": some}, "b": {"recordsIn": 9, "read": more}})
    9

    These are two orders, five payments, and two records of an internal topic.
    """
    least: dict[str, int] = {}
    hops = 0
    for totals in epochs.values():
        hops += totals["recordsIn"] - sum(totals["read"].values())
        for topics, records in totals["read"].items():
            least[topics] = min(least.get(topics, records), records)
    return sum(least.values()) + hops


def _seconds_since(iso: str | None) -> float | None:
    """The delay of the latest event time behind the clock; None where no node uses event time."""
    if iso is None:
        return None
    return round((datetime.now(UTC) - datetime.fromisoformat(iso)).total_seconds(), 1)


def _offsets(text: Any) -> dict[str, dict[str, int]] | None:
    value = json.loads(text) if isinstance(text, str) else text
    return value if isinstance(value, dict) else None


def _restore(partitions: list[dict[str, Any]], restored: dict[str, int]) -> dict[str, Any]:
    """Done, total, rate (changelog offsets per second) and the seconds still needed, per store.

    Args:
        partitions: the last restore of each.
        restored: the changelog offsets of all restores since the start, by store.

    >>> whole = {"store": "s", "finished": True, "done": 600, "total": 600, "startedMs": 1000, "millis": 500}
    >>> half = {"store": "s", "finished": False, "done": 400, "total": 900, "startedMs": 1200, "millis": 800}
    >>> _restore([whole, half], {"s": 600})["s"] == {
    ...     "partitions": 2, "restoring": 1, "done": 1000, "total": 1500, "restored": 600, "millis": 1000,
    ...     "recordsPerSecond": 1000, "etaSeconds": 0.5}
    True
    """
    stores: dict[str, Any] = {}
    ends: dict[str, list[tuple[int, int]]] = {}
    for part in partitions:
        ends.setdefault(part["store"], []).append((part["startedMs"], part["startedMs"] + part["millis"]))
        store = stores.setdefault(
            part["store"],
            {"partitions": 0, "restoring": 0, "done": 0, "total": 0, "restored": 0, "millis": 0, "etaSeconds": 0.0},
        )
        store["partitions"] += 1
        store["restoring"] += not part["finished"]
        store["done"] += part["done"]
        store["total"] += part["total"]
    for name, store in stores.items():
        store["restored"] = restored.get(name, 0)
        # Partitions are restored a few at a time: the time counts from the first one's start to the last one's end.
        store["millis"] = max(end for _, end in ends[name]) - min(start for start, _ in ends[name])
        rate = store["done"] / store["millis"] * 1000 if store["millis"] else 0.0
        store["recordsPerSecond"] = round(rate)
        store["etaSeconds"] = round((store["total"] - store["done"]) / rate, 1) if rate else 0.0
    return stores
