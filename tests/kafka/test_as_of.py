# SPDX-License-Identifier: Apache-2.0
"""Records meet the row that a table had at their own time, in whatever order the two come."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lib.inprocess import App
from lib.timed import NOON, SECOND, Feed, Sent, StreamTimes, disordered, send
from lib.verify import folded, rows_of
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

HISTORY, GRACE = 60 * SECOND, 20 * SECOND
KEYS = [f"k{i}" for i in range(12)]
IN_ORDER = (0,) * 5
CLICKS = Feed("clicks", (*IN_ORDER, 5, 20, 21, 60, 61, 80))
"""Clicks, some of them late by more than the history."""
SEEN = """
  - name: rates
    table: {topic: $T-rates, history: 60s, bootstrap: false, value: {format: json, schema: "n INT, g STRING"}}
  - {name: rates-out, from: rates, to: {topic: $T-rates-out}}
  - {name: clicks, stream: {topic: $T-clicks, value: {format: json, schema: "n INT"}}}
  - {name: seen, from: clicks, join: {with: rates, asOf: true, type: left, select: {click: left.n, rate: right.n}}}
  - {name: seen-out, to: {topic: $T-seen}}
"""
TOPOLOGY = f"""{SEEN}
  - {{name: odd, from: rates, filter: n % 2 = 1}}
  - name: waited
    from: clicks
    join: {{with: odd, asOf: true, grace: 20s, type: left, select: {{click: left.n, at: left.offset, rate: right.n}}}}
  - {{name: waited-out, to: {{topic: $T-waited}}}}
  - {{name: per-key, from: waited, groupBy: [key], aggregate: {{many: count(*), total: sum(rate), last: last(click)}}}}
  - {{name: per-key-out, to: {{topic: $T-per-key}}}}
  - {{name: per-g, from: rates, groupBy: [g], aggregate: {{many: count(*), total: sum(n)}}}}
  - {{name: per-g-out, to: {{topic: $T-per-g}}}}
"""


@dataclass
class Model:
    """The rules of the manual; each key is in one partition of each topic."""

    times: StreamTimes = field(default_factory=lambda: StreamTimes("rates"))
    rates: dict[str, list[Sent]] = field(default_factory=dict)
    """The rates of each key, by time."""
    seen: list[tuple[int | None, int | None]] = field(default_factory=list)
    waiting: list[Sent] = field(default_factory=list)
    waited: list[tuple[int | None, int, int | None]] = field(default_factory=list)

    def read(self, records: Iterable[Sent]) -> None:
        """Reads the records of one epoch: those of both topics by stream time, the table's first."""
        for now, sent in self.times.in_order(records):
            if sent.topic == "rates":
                self.update(self.rates.setdefault(sent.key, []), sent, now)
                continue
            self.seen.append((sent.n, self.rate(sent, now)))
            if sent.at < now - HISTORY:
                self.wait_no_more(sent, self.rate(sent, now))
            else:
                self.waiting.append(sent)
        closed = self.times.closed
        over = [click for click in self.waiting if click.at + GRACE < closed]
        self.waiting = [click for click in self.waiting if click.at + GRACE >= closed]
        for click in over:
            self.wait_no_more(click, self.rate(click))

    def update(self, known: list[Sent], sent: Sent, now: int) -> None:
        if known and known[-1].n is None and known[-1].at <= now - HISTORY:
            # The row of that time is not known any more: the order of the log counts.
            known[:] = [*known, sent] if known[-1].at < sent.at else [sent]
        elif not known or known[-1].at <= sent.at or sent.at >= now - HISTORY:
            known.append(sent)
            known.sort(key=lambda one: one.at)

    def rate(self, click: Sent, now: int | None = None) -> int | None:
        """The rate at the click's time; beyond the history there is only the latest row."""
        rates = self.rates.get(click.key, [])
        if now is not None and click.at < now - HISTORY:
            rates = rates[-1:]
        return next((rate.n for rate in reversed(rates) if rate.at <= click.at), None)

    def wait_no_more(self, click: Sent, rate: int | None) -> None:
        self.waited.append((click.n, click.offset, rate if rate is not None and rate % 2 == 1 else None))

    def end(self) -> None:
        for click in self.waiting:
            self.wait_no_more(click, self.rate(click))
        self.waiting.clear()

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """The table at the end."""
        found = {key: rates[-1].n for key, rates in self.rates.items() if rates}
        return {key: {"n": n, "g": f"g{n % 3}"} for key, n in found.items() if n is not None}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("epoch_records", [None, 40])
def test_records_meet_rows_of_their_own_time(kafka: KafkaConfig, tmp_path: Path, epoch_records: int | None) -> None:
    """The second run goes on with the state in the changelogs. The clicks that wait do not depend on epochs, if no rate
    is late by more than the grace."""
    app = App(kafka, tmp_path, TOPOLOGY)
    app.create("rates", "clicks", partitions=2)
    model = Model()
    for run in range(3):
        late = (30, 59, 61, 80, 120) if epoch_records is None else ()
        feeds = Feed("rates", (*IN_ORDER, 5, 19, 20, *late), deleted=0.15), CLICKS
        records = list(disordered(run, NOON + run * 120 * SECOND, 80, feeds, KEYS))
        send(app, records)
        if run == 1:
            shutil.rmtree(tmp_path / app.prefix)
        if run == 2:
            app.change(TOPOLOGY, spec="  run: untilCaughtUp\n  closeWindows: true")
        app.run(epoch_records=epoch_records)
        model.read(records)
        rows = model.rows
        assert app.table("rates-out") == rows
        groups = {g: [row["n"] for row in rows.values() if row["g"] == g] for g in ("g0", "g1", "g2")}
        totals = {g: {"many": len(numbers), "total": sum(numbers)} for g, numbers in groups.items() if numbers}
        assert {g: row for g, row in app.table("per-g").items() if row["many"]} == totals
        if epoch_records is None:
            assert Counter((r.value["click"], r.value["rate"]) for r in app.received("seen")) == Counter(model.seen)
    model.end()
    waited = Counter((r.value["click"], r.value["at"], r.value["rate"]) for r in app.received("waited"))
    assert waited == Counter(model.waited)
    assert sum(rate is not None for _, _, rate in model.waited) > 100
    assert sum(rate is None for _, _, rate in model.waited) > 100
    assert sum(row["many"] for row in app.table("per-key").values()) == len(model.waited)
    assert sum(row["total"] or 0 for row in app.table("per-key").values()) == sum(r or 0 for _, _, r in model.waited)
    assert rows_of(folded(kafka, f"{app.prefix}-waited-changelog")) == {}
    # An hour later nothing is left of old rows.
    for partition in range(2):
        for topic in ("rates", "clicks"):
            app.send(topic, (f"z{partition}", {"n": 1, "g": "g1"}, NOON + 3600 * SECOND), partition=partition)
    app.run()
    assert len(rows_of(folded(kafka, f"{app.prefix}-rates-changelog"))) == len(model.rows) + 2
    assert {key: row["n"] for key, row in app.table("rates-out").items() if key not in ("z0", "z1")} == {
        key: row["n"] for key, row in model.rows.items()
    }


def test_what_was_may_change(kafka: KafkaConfig, tmp_path: Path) -> None:
    """Updates and deletions that come late, of equal times, and beyond the history of 60 s; with a restart before each
    question."""
    app = App(kafka, tmp_path, SEEN)
    app.create("rates", "clicks")

    def rates(*sent: tuple[str, int | None, int]) -> None:
        """Sends keys, numbers and seconds."""
        values = ((key, None if n is None else {"n": n, "g": "g"}, NOON + second * SECOND) for key, n, second in sent)
        app.send("rates", *values)
        app.run()

    asked = 0

    def seen(*clicks: tuple[str, int]) -> list[int | None]:
        """The rows of the table for these keys at these seconds."""
        nonlocal asked
        numbered = [(key, {"n": asked + i}, NOON + second * SECOND) for i, (key, second) in enumerate(clicks)]
        app.send("clicks", *numbered)
        app.run()
        found = {r.value["click"]: r.value["rate"] for r in app.received("seen")}
        asked += len(clicks)
        return [found[click["n"]] for _, click, _ in numbered]

    rates(*(("e", 1, 30), ("e", None, 50), ("e", 3, 100)), *(("a", 1, 100), ("a", 3, 200)))
    rates(("c", 1, 200), ("c", None, 210), ("d", 1, 200), ("d", None, 205))
    # Time has come to second 210 in all partitions that had records.
    assert seen(("a", 149), ("a", 150), ("a", 199), ("a", 200), ("c", 205), ("c", 210)) == [None, 1, 1, 3, 1, None]
    # Late by 50 s; by 90 s, which is left out; by 200 s, where nothing younger is known.
    rates(("a", 5, 160), ("a", 7, 120), ("b", 9, 10), ("a", None, 180), ("c", 2, 207))
    assert seen(("a", 155), ("a", 170), ("a", 190), ("a", 215), ("b", 215), ("c", 206), ("c", 208), ("c", 215)) == [
        *(1, 5, None, 3, 9),
        *(1, 2, None),
    ]
    # Before a deletion that is forgotten, no row comes in again.
    rates(("e", 5, 50), ("e", 7, 45), ("e", 9, 40), ("a", 11, 200), ("a", 13, 180), ("c", 4, 220), ("c", 6, 210))
    assert seen(("a", 175), ("a", 190), ("a", 216), ("c", 209), ("c", 219), ("c", 220), ("e", 160)) == [
        *(5, 13, 11),
        *(2, 6, 4, 3),
    ]
    assert app.table("rates-out") == {key: {"n": n, "g": "g"} for key, n in (("a", 11), ("b", 9), ("c", 4), ("e", 3))}
    # Clicks that are older than the history of their own partition meet the latest row, or none.
    assert seen(("z", 300), ("a", 239), ("a", 190), ("b", 190)) == [None, 11, None, 9]
    # A deletion so long ago is forgotten: as in a table without a history, the last record counts.
    rates(("z", 1, 4000), ("d", 5, 204))
    assert app.table("rates-out")["d"] == {"n": 5, "g": "g"}
    app.change(SEEN.replace("60s", "2h"))  # another history goes on with the same state
    rates(("a", 15, 4001))
    assert seen(("a", 4001)) == [15]
