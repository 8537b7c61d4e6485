# SPDX-License-Identifier: Apache-2.0
"""Rows and groups that are not updated expire by event time: in the store, in the output, and for lookups."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lib.inprocess import App
from lib.timed import NOON, SECOND, Feed, Sent, StreamTimes, disordered, send
from lib.verify import folded, rows_of
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

TTL = 20 * SECOND
KEYS = [f"k{i}" for i in range(20)]
BACKS = (0, 0, 0, 0, 5, 19, 20, 21, 40)
FEEDS = Feed("prices", BACKS, deleted=0.1), Feed("clicks", BACKS)
SOURCES = """
  - name: prices
    table: {topic: $T-prices, ttl: 20s, bootstrap: false, value: {format: json, schema: "n INT, g STRING"}}
  - {name: clicks, stream: {topic: $T-clicks, value: {format: json, schema: "n INT"}}}
"""
TOPOLOGY = f"""{SOURCES}
  - {{name: prices-out, from: prices, to: {{topic: $T-prices-out}}}}
  - {{name: priced, from: clicks, join: {{with: prices, type: left, select: {{click: left.n, price: right.n}}}}}}
  - {{name: priced-out, to: {{topic: $T-priced}}}}
  - {{name: trails, from: clicks, groupBy: [key], ttl: 20s, aggregate: {{trail: collect_list(n)}}}}
  - {{name: trails-out, to: {{topic: $T-trails}}}}
  - {{name: trailed, from: clicks, join: {{with: trails, type: left, select: {{click: left.n, trail: right.trail}}}}}}
  - {{name: trailed-out, to: {{topic: $T-trailed}}}}
  - {{name: both, from: prices, join: {{with: trails, type: outer, select: {{price: left.n, trail: right.trail}}}}}}
  - {{name: both-out, to: {{topic: $T-both}}}}
  - {{name: per-g, from: prices, groupBy: [g], aggregate: {{many: count(*), total: sum(n)}}}}
  - {{name: per-g-out, to: {{topic: $T-per-g}}}}
"""


@dataclass
class Model:
    """The rules of the manual; each key is in one partition of each topic."""

    times: StreamTimes = field(default_factory=lambda: StreamTimes("prices"))
    prices: dict[str, Sent] = field(default_factory=dict)
    trails: dict[str, tuple[list[int | None], int]] = field(default_factory=dict)
    """By key, the numbers, and the time of the latest record."""
    priced: list[tuple[int | None, int | None]] = field(default_factory=list)
    trailed: list[tuple[int | None, list[int | None] | None]] = field(default_factory=list)
    gone: Counter[tuple[str, str, int]] = field(default_factory=Counter)
    """The expired rows: table, key and time."""

    def read(self, records: list[Sent]) -> None:
        """Reads the records of one epoch: those of both topics by stream time, the table's first."""
        for now, sent in self.times.in_order(records):
            if sent.topic == "prices":
                self._price(sent, now)
            else:
                self._click(sent, now)
        closed = self.times.closed
        for key in [key for key, row in self.prices.items() if row.at <= closed - TTL]:
            self.gone["prices-out", key, self.prices.pop(key).at + TTL] += 1
        for key in [key for key, (_, at) in self.trails.items() if at <= closed - TTL]:
            self.gone["trails", key, self.trails.pop(key)[1] + TTL] += 1

    def _price(self, sent: Sent, now: int) -> None:
        if sent.n is None or sent.at <= now - TTL:
            self.prices.pop(sent.key, None)
        else:
            self.prices[sent.key] = sent

    def _click(self, sent: Sent, now: int) -> None:
        price = self.prices.get(sent.key)
        self.priced.append((sent.n, price.n if price is not None and price.at > now - TTL else None))
        trail, at = self.trails.get(sent.key, ([], -TTL))
        if at <= now - TTL:
            trail, at = [], sent.at
        if max(at, sent.at) > now - TTL:
            self.trails[sent.key] = [*trail, sent.n], max(at, sent.at)
            self.trailed.append((sent.n, [*trail, sent.n]))
        else:
            self.trailed.append((sent.n, None))


@pytest.mark.timeout(400)
def test_what_is_not_updated_is_gone(kafka: KafkaConfig, tmp_path: Path) -> None:
    """The second run goes on with the state in the changelogs."""
    app = App(kafka, tmp_path, TOPOLOGY)
    app.create("prices", "clicks", partitions=2)
    model = Model()
    for run in range(2):
        records = list(disordered(run, NOON + run * 100 * SECOND, 60, FEEDS, KEYS))
        send(app, records)
        if run == 1:
            shutil.rmtree(tmp_path / app.prefix)
        app.run()
        model.read(records)
        rows = {key: sent.value for key, sent in model.prices.items()}
        trails = {key: {"trail": trail} for key, (trail, _) in model.trails.items()}
        assert app.table("prices-out") == rows
        assert app.table("trails") == trails
        assert Counter((r.value["click"], r.value["price"]) for r in app.received("priced")) == Counter(model.priced)
        seen = sorted((r.value["click"], str(r.value["trail"])) for r in app.received("trailed"))
        assert seen == sorted((n, str(trail)) for n, trail in model.trailed)
        assert app.table("both") == {
            key: {"price": (rows.get(key) or {}).get("n"), "trail": (trails.get(key) or {}).get("trail")}
            for key in rows.keys() | trails.keys()
        }
        groups = {g: [row["n"] for row in rows.values() if row and row["g"] == g] for g in ("g0", "g1", "g2")}
        totals = {g: {"many": len(numbers), "total": sum(numbers) or None} for g, numbers in groups.items()}
        assert {g: row for g, row in app.table("per-g").items() if row["many"]} == {
            g: row for g, row in totals.items() if row["many"]
        }
        told = Counter(
            (t, r.key or "", r.timestamp) for t in ("prices-out", "trails") for r in app.received(t) if not r.value
        )
        assert told & model.gone == model.gone
        kept = rows_of(folded(kafka, f"{app.prefix}-trails-changelog"))
        assert len(kept) == len(trails) * 2  # a row and a look
    assert sum(model.gone.values()) >= 6
    assert sum(price is None for _, price in model.priced) > 20
    assert sum(trail is None for _, trail in model.trailed) > 3


def test_rows_are_gone_when_nothing_comes(kafka: KafkaConfig, tmp_path: Path) -> None:
    """Event time goes on by the clock when all is idle: a row that is not replaced is deleted all the same."""
    app = App(kafka, tmp_path, TOPOLOGY.replace("20s", "3s"), spec="  idleTimeout: 1s")
    app.create("prices", "clicks", partitions=2)
    app.send("prices", ("a", {"n": 1, "g": "g"}, NOON), ("b", {"n": 2, "g": "g"}, NOON + SECOND))
    app.send("clicks", ("a", {"n": 1}, NOON))
    stopped_after = time.monotonic() + 120

    def stop_when_gone(status: Mapping[str, Any]) -> None:
        seen = app.received("prices-out"), app.received("trails")
        if [len(records) for records in seen] == [4, 2] or time.monotonic() > stopped_after:
            os.kill(os.getpid(), signal.SIGTERM)

    app.run_until_told(stop_when_gone)
    gone = {(r.key, r.timestamp) for topic in ("prices-out", "trails") for r in app.received(topic) if r.value is None}
    assert gone == {("a", NOON + 3 * SECOND), ("b", NOON + 4 * SECOND)}
    assert app.table("both") == {}
    assert app.latest("per-g") == {"g": {"many": 0, "total": None}}
    app.change(TOPOLOGY.replace("20s", "1h"))
    app.send("prices", ("a", {"n": 3, "g": "g"}, NOON))  # another ttl goes on with the same state
    app.run()
    assert app.table("prices-out") == {"a": {"n": 3, "g": "g"}}
