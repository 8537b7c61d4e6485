# SPDX-License-Identifier: Apache-2.0
"""The records alone decide what a window holds, what is late and what is final: not how they were cut into epochs and
runs, nor which partition was read first."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lib.app import START_SECONDS, Bench
from lib.broker import in_order
from lib.faults import halt_at, killed_at
from lib.inprocess import App
from lib.verify import committed
from lib.wait import until
from lib.windows import Event, FoldModel, Model, SessionModel, SlidingModel, Span, disordered
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

NOON = 1_704_110_400_000
SECOND = 1000
SIZE, ADVANCE, GRACE = 20 * SECOND, 10 * SECOND, 5 * SECOND
FINAL = """
  - {name: in, stream: {topic: $T-in, value: text}}
  - {name: some, filter: value <> 'no'}
  - name: counts
    groupBy: [key]
    window: {hopping: 20s, every: 10s}
    grace: 5s
    emit: final
    aggregate: {'n': count(*)}
  - {name: out, to: {topic: $T-out}}
"""
IN_ORDER = """
  - name: folds
    from: some
    groupBy: [{key: "concat(key, partition)"}]
    window: {hopping: 20s, every: 10s}
    grace: 5s
    emit: final
    reduce: {offset: "(acc.offset * 31 + offset) % 1000003"}
  - {name: folds-out, to: {topic: $T-folds}}
"""
LENGTH = SECOND // 2
OF_RECORDS = """
  - name: %(kind)s-%(emit)s
    from: some
    groupBy: [{key: "concat(key, partition)"}]
    window: {%(kind)s: 500ms}
    grace: 5s
    emit: %(emit)s
    aggregate: {'n': count(*)}
  - {name: %(kind)s-%(emit)s-out, to: {topic: $T-%(kind)s-%(emit)s}}
"""
KINDS = {"session": SessionModel, "sliding": SlidingModel}
ALL_OF_RECORDS = "".join(OF_RECORDS % {"kind": kind, "emit": emit} for kind in KINDS for emit in ("final", "updates"))


def behind_hops(topology: str) -> str:
    """The same nodes, each of which reads an internal topic: a drawn number differs each time, so the topology is
    cut."""
    node = "  - {name: some, filter: value <> 'no'}\n"
    assert node in topology
    return topology.replace(node, node.replace("some", "passing") + "  - {name: some, with: {drawn: rand()}}\n")


TASKS = """
  - {name: known, table: {topic: $T-known, value: text}}
  - {name: by-key, from: some, join: {with: known, type: left, select: {value: "`some`.value"}}}
  - {name: placed, from: some, with: {place: "concat(key, partition)", offset: offset}}
  - {name: by-place, keyBy: [place]}
  - {name: at-place, join: {with: known, type: left, select: {offset: "`by-place`.offset"}}}
"""


def in_a_task(topology: str) -> str:
    """The same windows, all in the task of a table that their records look up."""
    counts, node = "  - name: counts\n", '    from: some\n    groupBy: [{key: "concat(key, partition)"}]\n'
    assert counts in topology
    assert node in topology
    moved = topology.replace(counts, TASKS.lstrip("\n") + counts + "    from: by-key\n")
    return moved.replace(node, "    from: at-place\n    groupBy: [{key: place}]\n")


ALSO_IN_A_TASK = """
  - {name: known, table: {topic: $T-known, value: text}}
  - {name: by-key, from: some, join: {with: known, type: left, select: {value: "`some`.value"}}}
  - name: counts-too
    groupBy: [key]
    window: {hopping: 20s, every: 10s}
    grace: 5s
    emit: final
    aggregate: {'n': count(*)}
  - {name: out-too, to: {topic: $T-out-too}}
"""


def same_finals(app: App) -> dict[tuple[str, int], int]:
    """The final results of an app with windows alone and in a task, which must be equal."""
    found = finals(app)
    assert finals_in(app.kafka, app.topic("out-too")) == found
    return found


BY: dict[str, Callable[[str], str]] = {"alone": str, "hops": behind_hops, "task": in_a_task}
"""By the place of the windows, a function that puts a topology's windows there."""


def finals(app: App) -> dict[tuple[str, int], int]:
    return finals_in(app.kafka, app.topic("out"))


def finals_in(kafka: KafkaConfig, topic: str, column: str = "n") -> dict[tuple[str, int], int]:
    """Final results by key and start of the window; each comes once."""
    found: dict[tuple[str, int], int] = {}
    for message in committed(kafka, topic):
        key = json.loads(message.key() or b"")
        window = key["key"], int(datetime.fromisoformat(key["window_start"]).timestamp() * 1000)
        assert window not in found, f"{window} came again"
        found[window] = json.loads(message.value() or b"")[column]
    return found


def spans_in(kafka: KafkaConfig, topic: str) -> tuple[dict[Span, int], int]:
    """The table of windows at the end of a topic, and the number of its records that were taken back or replaced."""
    found: dict[Span, int] = {}
    records = committed(kafka, topic)
    for message in records:
        key = json.loads(message.key() or b"")
        start, end = (int(datetime.fromisoformat(key[f"window_{at}"]).timestamp() * 1000) for at in ("start", "end"))
        span = key["key"], start, end
        if message.value() is None:
            del found[span]
        else:
            found[span] = json.loads(message.value() or b"")["n"]
            assert start <= message.timestamp()[1] <= end
    return found, len(records) - len(found)


def late(app: App, subtopology: str = "counts") -> int:
    count: int = app.statuses[-1]["subTopologies"][subtopology]["lateRecords"]
    return count


def send(app: App, partition: int, events: Sequence[Event]) -> None:
    app.send("in", *((key, "x", at) for key, at in events), partition=partition)


def beginning_late(events: list[Event]) -> list[Event]:
    """The events, of which the first is late if the stream time from before is known, and only then."""
    return [("a", NOON), *events[1:]]


STEPS = (
    "metadata.after-write.offsets",
    "epoch.planned",
    "transaction.before-commit#0",
    "transaction.after-commit#1",
    "epoch.tasks-committed",
    "metadata.deferred.commits",
)
SOME = ("transaction.after-commit#1",)


@pytest.mark.timeout(600)
@killed_at(SOME, STEPS)
def test_killed_at_every_step(kafka: KafkaConfig, tmp_path: Path, steps: tuple[str, ...]) -> None:
    """Stream time survives a kill at each step of an epoch, also over internal topics and in a task.

    Each start goes on with the times at the end of the last epoch.
    """
    topology = FINAL.replace("$T-in", "$T-numbers").replace("$T-out", "$T-windows") + IN_ORDER
    for kind in KINDS:
        topology += (OF_RECORDS % {"kind": kind, "emit": "final"}).replace(f"$T-{kind}-final", f"$T-{kind}")
    # These read an internal topic and are in one task; the first window beside them does not read one.
    topology = behind_hops(in_a_task(topology)).replace("    from: by-key\n", "    from: passing\n")
    topology = topology.replace("$T-known", "$T-ticks")
    many = 700 // (len(steps) + 1)
    partitions = {p: disordered(11, p, 700, NOON, 90 + 10 * p, 40 * SECOND) for p in range(3)}
    model, folds = Model(SIZE, ADVANCE, GRACE), FoldModel(SIZE, ADVANCE, GRACE)
    of_records = {kind: cls(LENGTH, GRACE) for kind, cls in KINDS.items()}
    producer = in_order(kafka)
    with Bench(kafka, tmp_path, "steps", topology, partitions=3, spec="idleTimeout: 1 day") as bench:
        for i, step in enumerate((*steps, None)):
            part = {p: beginning_late(events[i * many : (i + 1) * many]) for p, events in partitions.items()}
            for other in (model, folds, *of_records.values()):
                other.read(part)
            for partition, events in part.items():
                for key, at in events:
                    producer.produce(bench.topics["numbers"], b"x", key.encode(), partition=partition, timestamp=at)
            assert producer.flush(30) == 0
            if step is not None:
                halt_at(bench, step)
        app = bench.start()
        output = bench.topics["windows"]
        until(lambda: len(finals_in(kafka, output)) >= len(model.closed), START_SECONDS, "all is final")
        folded = bench.topics["folds"]
        until(lambda: len(finals_in(kafka, folded, "offset")) >= len(folds.closed), START_SECONDS, "all is folded")
        found = {kind: lambda kind=kind: spans_in(kafka, bench.topics[kind]) for kind in KINDS}
        for kind, spans in of_records.items():
            until(lambda: len(found[kind]()[0]) >= len(spans.closed), START_SECONDS, f"all of {kind} is final")  # noqa: B023
        assert app.stop() == 0
        assert finals_in(kafka, output) == model.closed
        assert finals_in(kafka, folded, "offset") == folds.closed
        assert min(model.late, folds.late) > 100
        assert min(len(model.closed), len(folds.closed)) > 20
        for kind, spans in of_records.items():
            assert found[kind]() == (spans.closed, 0), kind
            assert min(spans.late, len(spans.closed)) > 100


@pytest.mark.parametrize(
    ("cuts", "by"),
    [
        ((50, 2, 99), "task"),
        *(
            pytest.param(cuts, by, marks=pytest.mark.chaos)
            for cuts in ((1, 90, 40), (50, 2, 99), ())
            for by in ("alone", "hops", "task")
            if (cuts, by) != ((50, 2, 99), "task")
        ),
    ],
)
def test_results_do_not_depend_on_how_partitions_are_read(
    kafka: KafkaConfig, tmp_path: Path, cuts: tuple[int, ...], by: str
) -> None:
    """`cuts`: the percentage of each partition that a first run reads; a second one reads the rest."""
    topology = FINAL + IN_ORDER + ALL_OF_RECORDS
    app = App(kafka, tmp_path, BY[by](topology))
    app.create("in", partitions=3)
    if by == "task":
        app.create("known")
    partitions = {p: disordered(7, p, 2_500, NOON, 40 + 5 * p, 40 * SECOND) for p in range(3)}
    model, folds = Model(SIZE, ADVANCE, GRACE), FoldModel(SIZE, ADVANCE, GRACE)
    of_records = {kind: cls(LENGTH, GRACE) for kind, cls in KINDS.items()}
    counted, counted_of, counted_together = Counter[str](), dict.fromkeys(KINDS, 0), 0
    at = dict.fromkeys(partitions, 0)
    for part in ([dict(zip(partitions, cuts, strict=True))] if cuts else []) + [dict.fromkeys(partitions, 100)]:
        new = {p: beginning_late(events[at[p] : len(events) * part[p] // 100]) for p, events in partitions.items()}
        for partition, events in new.items():
            send(app, partition, events)
            at[partition] += len(events)
        model.read(new)
        folds.read(new)
        app.run()
        if by == "task":
            counted_together += late(app, "known")
        else:
            counted.update({name: late(app, name) for name in ("counts", "folds")})
        assert finals(app) == model.closed
        assert finals_in(kafka, app.topic("folds"), "offset") == folds.closed
        for kind, spans in of_records.items():
            spans.read(new)
            if by != "task":
                counted_of[kind] += late(app, f"{kind}-final")
                assert late(app, f"{kind}-final") == late(app, f"{kind}-updates")
            assert spans_in(kafka, app.topic(f"{kind}-final")) == (spans.closed, 0), kind
            table, replaced = spans_in(kafka, app.topic(f"{kind}-updates"))
            assert table == spans.all, kind
            assert replaced > 0 or len(new) == len(partitions), kind
    if by == "task":
        assert counted_together == model.late + folds.late + 2 * sum(spans.late for spans in of_records.values())
    else:
        assert counted_of == {kind: spans.late for kind, spans in of_records.items()}
        assert counted == {"counts": model.late, "folds": folds.late}
    assert min(model.late, folds.late, *(spans.late for spans in of_records.values())) > 100
    assert min(len(spans.closed) for spans in of_records.values()) > 100
    assert min(len(model.closed), len(folds.closed)) > 20


def test_a_record_that_is_filtered_out_moves_time_too(kafka: KafkaConfig, tmp_path: Path) -> None:
    app = App(kafka, tmp_path, FINAL)
    app.create("in")
    app.send("in", ("a", "x", NOON), ("a", "no", NOON + 60 * SECOND), ("a", "x", NOON + SECOND))
    app.run()
    assert finals(app) == {("a", NOON - 10 * SECOND): 1, ("a", NOON): 1}
    assert late(app) == 2


def test_windows_close_when_nothing_comes(kafka: KafkaConfig, tmp_path: Path) -> None:
    """One of three partitions has records, one has had some, and one is empty: time goes on by the clock."""
    short = (FINAL + ALSO_IN_A_TASK).replace("20s", "4s").replace("10s", "2s").replace("5s", "1s")
    app = App(kafka, tmp_path, short, spec="  idleTimeout: 1s")
    app.create("in", partitions=3)
    app.create("known")
    app.send("in", ("a", "x", NOON), ("b", "x", NOON + SECOND), partition=0)
    app.send("in", ("a", "x", NOON - SECOND), partition=1)
    stopped_after = time.monotonic() + 120

    def stop_when_closed(status: Mapping[str, Any]) -> None:
        app.statuses.append(dict(status))
        both = (finals_in(kafka, app.topic(name)) for name in ("out", "out-too"))
        if all(len(found) == 5 for found in both) or time.monotonic() > stopped_after:
            os.kill(os.getpid(), signal.SIGTERM)

    app.run_until_told(stop_when_closed)
    before, at = NOON - 2 * SECOND, NOON
    closed = {("a", before - 2 * SECOND): 1, ("a", before): 2, ("b", before): 1, ("a", at): 1, ("b", at): 1}
    assert same_finals(app) == closed
    assert late(app) == late(app, "known") == 0
    app.send("in", ("a", "x", NOON), partition=2)  # closed windows stay closed
    app.run()
    assert same_finals(app) == closed
    assert late(app) == late(app, "known") == 2


def test_a_run_to_the_end_closes_what_is_open(kafka: KafkaConfig, tmp_path: Path) -> None:
    """The run also closes windows that an earlier run has left open. Windows that end later can still come."""
    app = App(kafka, tmp_path, FINAL + ALSO_IN_A_TASK)
    app.create("in", partitions=2)
    app.create("known")
    app.send("in", ("a", "x", NOON), ("a", "x", NOON + 12 * SECOND))
    app.run()
    assert same_finals(app) == {}
    app.change(FINAL + ALSO_IN_A_TASK, "  run: untilCaughtUp\n  closeWindows: true")
    app.run()
    closed = {("a", NOON - 10 * SECOND): 1, ("a", NOON): 2, ("a", NOON + 10 * SECOND): 1}
    assert same_finals(app) == closed
    app.send("in", ("b", "x", NOON + 60 * SECOND), partition=1)
    app.run()
    assert same_finals(app) == closed | {("b", NOON + 50 * SECOND): 1, ("b", NOON + 60 * SECOND): 1}
    app.run()
    assert len(same_finals(app)) == 5
    assert late(app) == late(app, "known") == 0


LATE = """
  - {name: in, stream: {topic: $T-in, value: text}}
  - {name: visits, groupBy: [key], window: {session: 5s}, late: {topic: $T-late}, aggregate: {'n': count(*)}}
  - {name: out, from: visits, to: {topic: $T-out}}
  - {name: near, from: in, groupBy: [key], window: {sliding: 5s}, late: {topic: $T-late}, aggregate: {'n': count(*)}}
  - name: hops
    from: in
    groupBy: [key]
    window: {hopping: 20s, every: 10s}
    late: {topic: $T-late-for-hops}
    emit: final
    aggregate: {'n': count(*), last: max(value)}
  - {name: hops-out, to: {topic: $T-hops}}
  - name: kept
    from: in
    groupBy: [key]
    window: {tumbling: 20s}
    retention: 1h
    late: {topic: $T-late-for-kept}
    aggregate: {first: first(value), all: collect_list(value)}
  - {name: kept-out, to: {topic: $T-kept}}
"""


def test_late_records_go_to_a_topic(kafka: KafkaConfig, tmp_path: Path) -> None:
    """The late records of a window with final results, and of one that has a store alone."""
    app = App(kafka, tmp_path, LATE)
    app.create("in")
    app.send("in", ("a", "x", NOON), ("b", "x", NOON + 60 * SECOND), ("a", "y", NOON + 10 * SECOND))
    app.run()
    assert app.latest("out").keys() == {
        '{"key":"a","window_start":"2024-01-01T12:00:00.000Z","window_end":"2024-01-01T12:00:00.000Z"}',
        '{"key":"b","window_start":"2024-01-01T12:01:00.000Z","window_end":"2024-01-01T12:01:00.000Z"}',
    }
    told = {dict(record.headers)["streamapp.node"]: record for record in app.received("late")}
    assert told.keys() == {"visits", "near"}
    for node, last in (("visits", 10), ("near", 15)):
        assert late(app, node) == 1
        assert (told[node].key, told[node].value, told[node].timestamp) == ("a", {"value": "y"}, NOON + 10 * SECOND)
        assert dict(told[node].headers) == {
            "streamapp.error": "late: the time of its partition had come to 2024-01-01T12:01:00.000Z",
            "streamapp.node": node,
            "streamapp.window": f"2024-01-01T12:00:10.000Z/2024-01-01T12:00:{last}.000Z",
            "streamapp.topic": app.topic("in"),
            "streamapp.partition": "0",
            "streamapp.offset": "2",
        }
    # Once for each window.
    assert late(app, "hops") == 2
    hops = [(r.key, r.value, dict(r.headers)["streamapp.window"]) for r in app.received("late-for-hops")]
    assert sorted(hops) == [
        ("a", {"value": "y"}, "2024-01-01T12:00:00.000Z/2024-01-01T12:00:20.000Z"),
        ("a", {"value": "y"}, "2024-01-01T12:00:10.000Z/2024-01-01T12:00:30.000Z"),
    ]
    assert [(r.value["n"], r.value["last"]) for r in app.received("hops")] == [(1, "x")] * 2
    assert late(app, "kept") == 1
    assert [(r.key, r.value) for r in app.received("late-for-kept")] == [("a", {"value": "y"})]
    assert [r.value for r in app.received("kept")] == [{"first": "x", "all": ["x"]}] * 2
