# SPDX-License-Identifier: Apache-2.0
"""The records alone decide which of them meet, and which stay alone: not how they were cut into epochs and runs, nor
which partition was read first."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pytest

from lib.app import START_SECONDS, Bench
from lib.broker import in_order
from lib.faults import halt_at, killed_at
from lib.inprocess import App
from lib.joins import Model, Result
from lib.verify import committed
from lib.wait import until
from lib.windows import Event, disordered
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

NOON = 1_704_110_400_000
SECOND = 1000
BEFORE, AFTER, GRACE = 4 * SECOND, 9 * SECOND, 3 * SECOND
SOURCES = """
  - {name: l, stream: {topic: $T-left, value: text}}
  - {name: r, stream: {topic: $T-right, value: text}}
"""
JOIN = """
  - name: %(kind)s
    from: l
    join:
      with: r
      type: %(kind)s
      before: 4s
      after: 9s
      grace: 3s
      select: {one: l.value, two: r.value}
  - {name: to-%(kind)s, to: {topic: $T-%(kind)s-pairs}}
"""
KINDS = ("inner", "left", "outer")
COUNTED = """
  - name: %(kind)s-counted
    from: %(kind)s
    groupBy: [key]
    window: {tumbling: 10s}
    aggregate: {'n': count(*)}
  - {name: to-%(kind)s-counted, to: {topic: $T-%(kind)s-counted}}
"""
"""Nodes in the task of the join: results that wait for a partner are in time for them."""
BEHIND_A_TABLE = """
  - {name: known, table: {topic: $T-known, value: text}}
  - {name: l, from: first, join: {with: known, type: left, select: {value: first.value}}}
"""
LATE = """
  - {name: l, stream: {topic: $T-left, value: {format: json, schema: "v STRING, more INT"}}}
  - {name: r, stream: {topic: $T-right, value: {format: json, schema: "w STRING"}}}
  - {name: by-v, from: l, keyBy: [v]}
  - name: pairs
    from: by-v
    join: {with: r, match: {v: w}, type: left, before: 4s, after: 9s, late: {topic: $T-late}, select: {a: left.more}}
  - {name: to-pairs, to: {topic: $T-pairs}}
  - name: same
    from: l
    join: {with: l, within: 5s, late: {topic: $T-late-too}, select: {a: left.more, b: right.more}}
  - {name: to-same, to: {topic: $T-same}}
"""


def results_in(kafka: KafkaConfig, topic: str) -> Counter[Result]:
    found: Counter[Result] = Counter()
    for message in committed(kafka, topic):
        value = json.loads(message.value() or b"")
        one, two = (int(value[name]) if value[name] is not None else None for name in ("one", "two"))
        found[(message.key() or b"").decode(), one, two] += 1
    return found


def counted_in(kafka: KafkaConfig, topic: str) -> dict[tuple[str, int], int]:
    """The latest counts by key and start of the window."""
    found = {}
    for message in committed(kafka, topic):
        key = json.loads(message.key() or b"")
        window = int(datetime.fromisoformat(key["window_start"]).timestamp() * 1000)
        found[key["key"], window] = int(json.loads(message.value() or b"")["n"])
    return found


def times_in(kafka: KafkaConfig, topic: str) -> Counter[tuple[str, int]]:
    """The number of results by key and ten seconds of their times."""
    times = ((message.key() or b"", message.timestamp()[1]) for message in committed(kafka, topic))
    return Counter((key.decode(), at - at % (10 * SECOND)) for key, at in times)


def numbered(events: Sequence[Event], since: int) -> list[tuple[Event, int]]:
    return [(event, since + i) for i, event in enumerate(events)]


@pytest.mark.parametrize(
    ("cuts", "together"),
    [
        ((1, 90, 40, 2), True),
        pytest.param((60, 2, 99, 97), False, marks=pytest.mark.chaos),
        pytest.param((), False, marks=pytest.mark.chaos),
    ],
    ids=["one-behind-and-all-in-one-task", "another-behind", "at-once"],
)
def test_results_do_not_depend_on_how_partitions_are_read(
    kafka: KafkaConfig, tmp_path: Path, cuts: tuple[int, ...], together: bool
) -> None:
    """`cuts`: the percentages of the partitions, two of the left and two of the right side, that a first run reads."""
    sources = SOURCES.replace("name: l,", "name: first,") + BEHIND_A_TABLE if together else SOURCES
    app = App(kafka, tmp_path, sources + "".join((JOIN + COUNTED) % {"kind": kind} for kind in KINDS))
    for side in ("left", "right"):
        app.create(side, partitions=2)
    if together:
        app.create("known")
    all_of = {
        side: {p: numbered(disordered(5 + i, p, 400, NOON, 2000 + 50 * p, 25 * SECOND), 1000 * p) for p in range(2)}
        for i, side in enumerate(("left", "right"))
    }
    models = {kind: Model(kind, BEFORE, AFTER, GRACE) for kind in KINDS}
    late = dict.fromkeys(KINDS, 0)
    at = {(side, p): 0 for side in all_of for p in range(2)}
    for part in ([dict(zip(at, cuts, strict=True))] if cuts else []) + [dict.fromkeys(at, 100)]:
        for side, partitions in all_of.items():
            new = {p: events[at[side, p] : len(events) * part[side, p] // 100] for p, events in partitions.items()}
            for partition, events in new.items():
                app.send(side, *((key, str(number), when) for (key, when), number in events), partition=partition)
                at[side, partition] += len(events)
            for model in models.values():
                (model.left if side == "left" else model.right).read(new)
        app.run()
        for kind, model in models.items():
            late[kind] += app.statuses[-1]["subTopologies"]["known" if together else kind]["lateRecords"]
            assert results_in(kafka, app.topic(f"{kind}-pairs")) == model.results, kind
            counts = counted_in(kafka, app.topic(f"{kind}-counted"))
            assert counts == times_in(kafka, app.topic(f"{kind}-pairs")), kind
    assert all(model.late > 50 for model in models.values())
    all_late = sum(model.late for model in models.values())
    assert late == {kind: all_late if together else model.late for kind, model in models.items()}
    alone = [result for result in models["outer"].results if None in result]
    assert models["inner"].results.total() > models["outer"].results.total() - len(alone) > 200
    assert len(alone) > 50
    assert models["left"].results != models["outer"].results


STEPS = (
    "metadata.after-write.offsets",
    "transaction.before-commit#0",
    "transaction.after-commit#1",
    "epoch.tasks-committed",
    "metadata.deferred.commits",
)
SOME = ("transaction.after-commit#1",)


@pytest.mark.timeout(600)
@killed_at(SOME, STEPS)
def test_killed_at_every_step(kafka: KafkaConfig, tmp_path: Path, steps: tuple[str, ...]) -> None:
    """Each record that stays alone comes out alone once, whatever has happened between its arrival and its end."""
    topology = (
        (SOURCES + JOIN % {"kind": "outer"})
        .replace("$T-left", "$T-numbers")
        .replace("$T-right", "$T-ticks")
        .replace("outer-pairs", "pairs")
    )
    topics = {"left": "numbers", "right": "ticks"}
    model = Model("outer", BEFORE, AFTER, GRACE)
    producer = in_order(kafka)
    many = 360 // (len(steps) + 1)
    all_of = {
        side: {p: numbered(disordered(3 + i, p, 360, NOON, 2000 + 50 * p, 25 * SECOND), 1000 * p) for p in range(n)}
        for i, (side, n) in enumerate((("left", 2), ("right", 1)))
    }
    with Bench(kafka, tmp_path, "alone", topology, partitions=2, spec="idleTimeout: 1 day") as bench:
        for i, step in enumerate((*steps, None)):
            for side, partitions in all_of.items():
                new = {p: events[i * many : (i + 1) * many] for p, events in partitions.items()}
                (model.left if side == "left" else model.right).read(new)
                for partition, events in new.items():
                    for (key, at), number in events:
                        value = str(number).encode()
                        producer.produce(bench.topics[topics[side]], value, key.encode(), partition, timestamp=at)
            assert producer.flush(30) == 0
            if step is not None:
                halt_at(bench, step)
        app = bench.start()
        output = bench.topics["pairs"]
        expected = model.results
        until(lambda: results_in(kafka, output).total() >= expected.total(), START_SECONDS, "all has its result")
        assert app.stop() == 0
        assert results_in(kafka, output) == expected
        assert len([result for result in expected if None in result]) > 50


BRANCHES = """
  - {name: in, stream: {topic: $T-in, value: {format: json, schema: 'id STRING, next STRING'}}}
  - {name: all, filter: id is not null}
  - name: steps
    from: all
    join:
      with: all
      match: {next: id}
      type: left
      after: 1m
      select: {id: left.id, then: right.next, at: right.timestamp}
  - {name: out, to: {topic: $T-out}}
  - {name: a, from: in, filter: id = 'a'}
  - {name: b, from: in, filter: id = 'b'}
  - {name: both, merge: [a, b]}
  - {name: counts, from: both, groupBy: [id], aggregate: {'n': count(*)}, window: {tumbling: 10s}}
  - {name: to-counts, to: {topic: $T-counts}}
"""


def test_a_source_that_meets_itself_is_read_once(kafka: KafkaConfig, tmp_path: Path) -> None:
    """In a join and in a merge. Two readings of a partition would have one stream time."""
    app = App(kafka, tmp_path, BRANCHES)
    app.create("in")
    app.send(
        "in",
        *(
            (None, {"id": name, "next": after}, NOON + at * SECOND)
            for name, after, at in (("a", "b", 0), ("b", "c", 5))
        ),
        (None, {"id": "c", "next": None}, NOON + 70 * SECOND),
        (None, {"id": "d", "next": "d"}, NOON + 200 * SECOND),  # a record meets itself
    )
    app.run()
    got = sorted((r.key or "", r.value["id"], r.value["then"], r.timestamp - NOON) for r in app.received("out"))
    assert got == [
        ("", "c", None, 70 * SECOND),  # null equals nothing
        ("b", "a", "c", 5 * SECOND),
        ("c", "b", None, 5 * SECOND),  # `c` comes 65 s later
        ("d", "d", "d", 200 * SECOND),
    ]
    assert [r.value for r in app.received("counts")] == [{"n": 1}, {"n": 1}]
    read = {name: part["recordsIn"] for name, part in app.statuses[-1]["subTopologies"].items()}
    assert read == {"steps": 4, "counts": 4}


def test_late_records_go_to_a_topic(kafka: KafkaConfig, tmp_path: Path) -> None:
    """The late records of both sides come with those that they could have met; other records meet as ever."""
    app = App(kafka, tmp_path, LATE)
    app.create("left", "right")
    app.send(
        "left",
        ("k", {"v": "a", "more": 1}, NOON + 60 * SECOND),
        ("k", {"v": "a", "more": 2}, NOON + 20 * SECOND),
        ("k", {"v": "a", "more": 3}, NOON + 55 * SECOND),
    )
    app.send(
        "right", ("k", {"w": "b"}, NOON + 60 * SECOND), (None, {"w": "a"}, NOON), ("k", {"w": "a"}, NOON + 57 * SECOND)
    )
    app.run()
    told = [(r.key, r.value, r.timestamp, dict(r.headers)) for r in app.received("late")]
    why = "late: the time of its partition had come to 2024-01-01T12:01:00.000Z"
    assert sorted(told, key=lambda record: record[2]) == [
        (
            None,
            {"w": "a"},
            NOON,
            {
                "streamapp.error": why,
                "streamapp.node": "pairs",
                "streamapp.window": "2024-01-01T11:59:51.000Z/2024-01-01T12:00:04.000Z",
                "streamapp.side": "right",
                "streamapp.topic": app.topic("right"),
                "streamapp.partition": "0",
                "streamapp.offset": "1",
            },
        ),
        (
            "a",
            {"more": 2},
            NOON + 20 * SECOND,
            {
                "streamapp.error": why,
                "streamapp.node": "pairs",
                "streamapp.window": "2024-01-01T12:00:16.000Z/2024-01-01T12:00:29.000Z",
                "streamapp.side": "left",
                "streamapp.topic": app.topic("left"),
                "streamapp.partition": "0",
                "streamapp.offset": "1",
            },
        ),
    ]
    assert Counter(r.value["a"] for r in app.received("pairs")) == {1: 1, 3: 1}
    of_sides = [dict(r.headers)["streamapp.side"] for r in app.received("late-too")]
    assert sorted(of_sides) == ["left", "right"]
    met = Counter((r.value["a"], r.value["b"]) for r in app.received("same"))
    assert met == {(1, 1): 1, (1, 3): 1, (3, 1): 1, (3, 3): 1}
    for name in ("pairs", "same"):
        assert app.statuses[-1]["subTopologies"][name]["lateRecords"] == 2
    # A partner comes in time, over a restart.
    app.send("right", ("k", {"w": "a"}, NOON + 62 * SECOND), ("k", {"w": "a"}, NOON + 30 * SECOND))
    app.run()
    assert len(app.received("late")) == 3
    assert Counter(r.value["a"] for r in app.received("pairs")) == {1: 2, 3: 2}
