# SPDX-License-Identifier: Apache-2.0
"""`suppress` gives fewer updates of a table: for each row the last one, when the limit since the first is over."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lib.inprocess import App
from lib.timed import NOON, SECOND, Feed, Sent, StreamTimes, disordered, send
from lib.verify import folded, rows_of
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

LIMIT = 20 * SECOND
KEYS = [f"k{i}" for i in range(24)]
BACKS = (0, 0, 0, 5, 30)
FEEDS = Feed("prices", BACKS, deleted=0.3), Feed("clicks", BACKS)
TOPOLOGY = """
  - {name: prices, table: {topic: $T-prices, bootstrap: false, value: {format: json, schema: "n INT"}}}
  - {name: clicks, stream: {topic: $T-clicks, value: {format: json, schema: "n INT"}}}
  - {name: cheap, from: prices, filter: "n >= 0"}
  - {name: seldom, from: prices, suppress: {untilTimeLimit: 20s}}
  - {name: seldom-out, to: {topic: $T-seldom}}
  - {name: priced, from: clicks, join: {with: seldom, type: left, select: {click: left.n, price: right.n}}}
  - {name: priced-out, to: {topic: $T-priced}}
  - {name: sums, from: clicks, groupBy: [key], aggregate: {many: count(*), total: sum(n)}}
  - {name: later, suppress: {untilTimeLimit: 20s}, store: held}
  - {name: later-out, to: {topic: $T-later}}
  - {name: both, from: seldom, join: {with: later, select: {price: left.n, many: right.many}}}
  - {name: both-out, to: {topic: $T-both}}
  - {name: gap, from: cheap, join: {with: seldom, select: {here: left.n, held: right.n}}}
  - {name: gap-out, to: {topic: $T-gap}}
  - {name: gaps, from: gap, groupBy: [{odd: here % 2}], aggregate: {rows: count(*), held: sum(held)}}
  - {name: gaps-out, to: {topic: $T-gaps}}
  - {name: per-n, from: seldom, groupBy: [{odd: n % 2}], aggregate: {rows: count(*), total: sum(n)}}
  - {name: per-n-out, to: {topic: $T-per-n}}
"""


Row = tuple[Any, int]
"""The fields of a row, and its event time."""


@dataclass
class Held:
    """A table that is held back. Each run is one epoch."""

    rows: dict[str, Row] = field(default_factory=dict)
    told: dict[str, Row] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    updates: list[tuple[str, Any, int]] = field(default_factory=list)

    def change(self, key: str, row: Row | None, at: int) -> None:
        if row is None and key not in self.rows:
            return
        self.waiting.setdefault(key, at)
        if row is None:
            del self.rows[key]
        else:
            self.rows[key] = row

    def let_go(self, closed: int) -> None:
        for key in [key for key, since in self.waiting.items() if since + LIMIT <= closed]:
            over = self.waiting.pop(key) + LIMIT
            row, known = self.rows.get(key), self.told.pop(key, None)
            if row is not None:
                self.told[key] = row
            if row is not None or known is not None:
                self.updates.append((key, row and row[0], row[1] if row else over))


@dataclass
class Model:
    times: StreamTimes = field(default_factory=lambda: StreamTimes("prices"))
    prices: Held = field(default_factory=Held)
    sums: Held = field(default_factory=Held)
    priced: list[tuple[int | None, int | None]] = field(default_factory=list)

    def read(self, records: list[Sent]) -> None:
        clicked: dict[str, Row] = {}
        for _, sent in self.times.in_order(records):
            if sent.topic == "prices":
                self.prices.change(sent.key, None if sent.n is None else ({"n": sent.n}, sent.at), sent.at)
            else:
                row = self.prices.told.get(sent.key)
                self.priced.append((sent.n, row and row[0]["n"]))
                before, at = clicked.get(sent.key) or self.sums.rows.get(sent.key, ({"many": 0, "total": 0}, 0))
                found = {"many": before["many"] + 1, "total": before["total"] + sent.n}
                clicked[sent.key] = found, max(at, sent.at)
        for key, row in clicked.items():
            self.sums.change(key, row, row[1])
        for held in (self.prices, self.sums):
            held.let_go(self.times.closed)


@pytest.mark.timeout(300)
def test_the_last_update_goes_on_when_the_limit_is_over(kafka: KafkaConfig, tmp_path: Path) -> None:
    """In two runs, the second with the state in the changelogs; then the end of a run lets the waiting updates go."""
    app = App(kafka, tmp_path, TOPOLOGY)
    app.create("prices", "clicks", partitions=2)
    model = Model()
    for run in range(2):
        records = list(disordered(run, NOON + run * 60 * SECOND, 40, FEEDS, KEYS))
        send(app, records)
        if run == 1:
            shutil.rmtree(tmp_path / app.prefix)
        app.run()
        model.read(records)
        require(app, model)
        waiting = rows_of(folded(kafka, f"{app.prefix}-held-changelog"))
        assert len(waiting) == 2 * len(model.sums.waiting)  # a row and a look
    assert sum(price is not None for _, price in model.priced) > 20
    assert any(value is None for _, value, _ in model.prices.updates)
    assert model.prices.waiting
    assert model.sums.waiting
    app.change(TOPOLOGY, spec="  run: untilCaughtUp\n  closeWindows: true")
    app.run()
    for held in (model.prices, model.sums):
        held.let_go(max(model.times.reached.values()) + LIMIT)
    require(app, model)
    assert rows_of(folded(kafka, f"{app.prefix}-held-changelog")) == {}


def test_a_late_first_update_goes_on_too(kafka: KafkaConfig, tmp_path: Path) -> None:
    """In one run, an epoch for each record: the late update's limit is over when it comes."""
    app = App(kafka, tmp_path, TOPOLOGY)
    app.create("prices", "clicks")
    for key, second in (("a", 0), ("a", 100), ("late", 10), ("a", 101), ("a", 102), ("late", 11), ("a", 150)):
        app.send("prices", (key, {"n": second}, NOON + second * SECOND))
    app.run(epoch_records=1)
    assert app.latest("seldom")["late"] == {"n": 11}


def require(app: App, model: Model) -> None:
    for topic, held in (("seldom", model.prices), ("later", model.sums)):
        told = Counter((r.key, str(r.value), r.timestamp) for r in app.received(topic))
        assert told == Counter((key, str(value), at) for key, value, at in held.updates), topic
        assert app.table(topic) == {key: row for key, (row, _) in held.told.items()}
    assert Counter((r.value["click"], r.value["price"]) for r in app.received("priced")) == Counter(model.priced)
    prices, sums = model.prices.told, model.sums.told
    assert app.table("both") == {
        key: {"price": prices[key][0]["n"], "many": sums[key][0]["many"]} for key in prices.keys() & sums.keys()
    }
    now = model.prices.rows
    gap = {key: {"here": now[key][0]["n"], "held": prices[key][0]["n"]} for key in now.keys() & prices.keys()}
    assert app.table("gap") == gap
    by_parity = {odd: [row["held"] for row in gap.values() if row["here"] % 2 == odd] for odd in (0, 1)}
    assert {key: row for key, row in app.latest("gaps").items() if row["rows"]} == {
        str(odd): {"rows": len(mine), "held": sum(mine)} for odd, mine in by_parity.items() if mine
    }
    numbers = [row["n"] for row, _ in prices.values()]
    assert {key: row for key, row in app.latest("per-n").items() if row["rows"]} == {
        str(odd): {"rows": len(mine), "total": sum(mine)}
        for odd in (0, 1)
        if (mine := [number for number in numbers if number % 2 == odd])
    }
