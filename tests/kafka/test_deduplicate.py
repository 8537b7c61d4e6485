# SPDX-License-Identifier: Apache-2.0
"""`deduplicate` lets the first of several records pass, however they are cut into epochs, and forgets in time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lib.inprocess import App
from lib.verify import folded, rows_of
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

NOON = 1_704_110_400_000
SECOND = 1000
WITHIN = 10 * SECOND
KEYS = [f"k{i}" for i in range(8)]
TOPOLOGY = """
  - {name: clicks, stream: {topic: $T-clicks, value: {format: json, schema: "id STRING, n INT"}}}
  - {name: once, deduplicate: {by: [id], within: 10s}}
  - {name: to-once, to: {topic: $T-once}}
  - {name: per-id, groupBy: [id], aggregate: {many: count(*), trail: collect_list(n)}, from: once}
  - {name: to-per-id, to: {topic: $T-per-id}}
"""


@dataclass(frozen=True)
class Click:
    id: str | None
    n: int
    at: int
    """Event time in ms."""


def clicks(rng: random.Random, keys: Sequence[str], count: int, since: int) -> Iterator[Click]:
    """Clicks out of order, some of them exactly `within` apart; about each tenth without an id."""
    at = since
    for n in range(count):
        at += rng.choice((0, 1, 1, 3)) * SECOND
        back = rng.choice((0, 0, 0, 5, 10, 25)) * SECOND
        yield Click(None if rng.random() < 0.1 else rng.choice(keys), n, at - back)


@dataclass
class Model:
    """The rules of the manual; a partition at a time, as each id is in one."""

    now: dict[int, int] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)

    def passing(self, partition: int, found: Sequence[Click]) -> Iterator[Click]:
        for click in found:
            now = self.now[partition] = max(click.at, self.now.get(partition, click.at))
            last = None if click.id is None else self.passed.get(click.id)
            if click.id is None or click.at < now - WITHIN:
                yield click
            elif last is None or abs(click.at - last) > WITHIN:
                self.passed[click.id] = click.at if last is None else max(click.at, last)
                yield click


@pytest.mark.timeout(400)
def test_the_first_of_several_passes(kafka: KafkaConfig, tmp_path: Path) -> None:
    """A second run goes on where the first has ended, in small epochs."""
    rng = random.Random(5)
    app = App(kafka, tmp_path, TOPOLOGY)
    app.create("clicks", partitions=2)
    model = Model()
    expected: list[Click] = []
    sent = 0
    for part, at_most in enumerate((None, 9)):
        for partition in range(2):
            found = list(clicks(rng, KEYS[partition::2], 120, NOON + part * 20 * SECOND))
            sent += len(found)
            app.send(
                "clicks",
                *((None, {"id": click.id, "n": click.n}, click.at) for click in found),
                partition=partition,
            )
            expected += model.passing(partition, found)
        app.send("clicks", (None, None, NOON))
        app.run(epoch_records=at_most)
    seen = [record.value and (record.value["id"], record.value["n"]) for record in app.received("once")]
    assert Counter(seen) == Counter([*((click.id, click.n) for click in expected), None, None])
    assert sent - len(expected) > 100
    by_id = {id: [click.n for click in expected if click.id == id] for id in KEYS}
    assert app.latest("per-id") == {id: {"many": len(found), "trail": found} for id, found in by_id.items()}


def test_what_nobody_can_repeat_is_forgotten(kafka: KafkaConfig, tmp_path: Path) -> None:
    """Ids that come once each, over an hour: the store has only those of the last seconds."""
    app = App(kafka, tmp_path, TOPOLOGY)
    app.create("clicks")
    for part in range(3):
        since = part * 1200
        app.send(
            "clicks",
            *((None, {"id": f"u{i}", "n": i}, NOON + i * SECOND) for i in range(since, since + 1200)),
        )
        app.run(epoch_records=300)
    assert len(app.received("once")) == 3600
    kept = rows_of(folded(kafka, f"{app.prefix}-once-changelog"))
    assert 10 <= len(kept) < 400
