# SPDX-License-Identifier: Apache-2.0
"""Records that are deleted before they were read: the app ends, or goes on as onSourceLoss says, and counts them."""

from __future__ import annotations

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from lib.app import ECHO as ECHO_OF_NUMBERS
from lib.app import Bench
from lib.broker import in_order
from lib.faults import alter, await_halt, compact, failpoints, last_epoch
from lib.inprocess import App
from lib.verify import committed
from lib.wait import until
from streamapp.errors import RunError
from streamapp.kafka.admin import Admin
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

ECHO = """
  - {name: in, stream: {topic: $T-in, value: text}}
  - {name: out, to: {topic: $T-out, value: text}}
"""
BOTH = (
    ECHO
    + """
  - {name: counts, from: in, groupBy: [value], aggregate: {count: count(*)}}
  - {name: counts-out, to: {topic: $T-counts}}
"""
)
"""Without state and with it. Each of the two parts reads the input for itself."""
Make = Callable[..., App]


@pytest.fixture
def app(kafka: KafkaConfig, tmp_path: Path) -> Make:
    def make(policy: str, topology: str = BOTH) -> App:
        made = App(kafka, tmp_path, topology, f"  onSourceLoss: {policy}")
        made.create("in")
        return made

    return make


def feed(a: App, letters: str) -> None:
    a.send("in", *[(None, letter) for letter in letters])


def lose(a: App, before: int) -> None:
    """Deletes the first records as retention does it: the topic begins later."""
    Admin(a.kafka).purge({(a.topic("in"), 0): before})
    assert Admin(a.kafka).start_offsets(a.topic("in")) == {0: before}


def make_anew(a: App, topic: str = "in") -> None:
    admin = Admin(a.kafka)
    admin.delete([a.topic(topic)])
    until(lambda: a.topic(topic) not in admin.topics(), 30, "the topic is gone")
    a.create(topic)


def came_out(a: App) -> list[str]:
    """The letters whose records were processed."""
    return sorted(str(record.value) for record in a.received("out"))


def came_out_of_both(a: App) -> list[str]:
    letters = came_out(a)
    assert a.latest("counts") == {letter: {"count": count} for letter, count in Counter(letters).items()}
    return letters


def lost(a: App) -> int:
    """The number of lost records that each part has reported in the last run."""
    (records,) = {int(part["lostRecords"]) for part in a.statuses[-1]["subTopologies"].values()}
    return records


def test_fail_ends_with_the_reason(app: Make) -> None:
    a = app("Fail")
    feed(a, "abc")
    a.run()
    feed(a, "def")
    lose(a, before=5)
    place = rf"{re.escape(a.topic('in'))}, partition 0, among offsets 3 to 5"
    with pytest.raises(RunError, match=rf"are gone in topic {place} .*set onSourceLoss: Earliest or Latest"):
        a.run()
    assert came_out_of_both(a) == list("abc")


def test_fail_ends_with_the_reason_for_a_topic_that_was_made_anew(app: Make) -> None:
    a = app("Fail", ECHO)
    feed(a, "abc")
    a.run()
    make_anew(a)
    feed(a, "x")
    place = rf"{re.escape(a.topic('in'))}, partition 0, from offset 3 on"
    with pytest.raises(RunError, match=rf"are gone in topic {place} .*the topic was deleted"):
        a.run()
    assert came_out(a) == list("abc")


@pytest.mark.parametrize(
    ("policy", "before", "then", "gone"),
    [("Earliest", 5, "abcf", 2), ("Latest", 5, "abc", 3), ("Earliest", 6, "abc", 3), ("Latest", 6, "abc", 3)],
)
def test_it_goes_on(app: Make, policy: str, before: int, then: str, gone: int) -> None:
    """The app goes on with the earliest record that is left, or behind the latest; there may be nothing left at all."""
    a = app(policy)
    feed(a, "abc")
    a.run()
    assert lost(a) == 0
    feed(a, "def")
    lose(a, before)
    a.run()
    assert (came_out_of_both(a), lost(a)) == (list(then), gone)
    feed(a, "g")
    a.run()
    assert (came_out_of_both(a), lost(a)) == (list(then + "g"), 0)


LOOKUP = """
  - {name: rows, table: {topic: $T-rows, value: text}}
  - {name: met, from: in, join: {with: rows, by: [value], type: left, select: {row: rows.value}}}
  - {name: met-out, to: {topic: $T-met}}
"""


@pytest.mark.parametrize(("policy", "then"), [("Earliest", "abcxyz"), ("Latest", "abcz")])
def test_a_topic_that_was_made_anew(app: Make, policy: str, then: str) -> None:
    """Records do not wait for a table's topic to become as long as it was."""
    a = app(policy, BOTH + LOOKUP)
    a.create("rows")
    feed(a, "abc")
    a.send("rows", *((letter, letter.upper()) for letter in "abcab"))
    a.run()
    make_anew(a)
    make_anew(a, "rows")
    feed(a, "xy")
    a.send("rows", ("z", "Z"))
    a.run()
    feed(a, "z")
    a.run()
    assert came_out_of_both(a) == list(then)
    rows = {"a": "A", "b": "B", "c": "C"} | ({"z": "Z"} if policy == "Earliest" else {})
    assert Counter((one.key, one.value["row"]) for one in a.received("met")) == Counter((x, rows.get(x)) for x in then)


def test_one_of_several_topics_is_deleted(app: Make) -> None:
    """The others go on, and the status says which one is missing."""
    a = app("Earliest", ECHO.replace("topic: $T-in", "pattern: $T-(in|more)"))
    a.create("more")
    feed(a, "a")
    a.send("more", (None, "b"))
    told: list[str] = []
    steps: Iterator[tuple[Callable[[], bool], Callable[[], None]]] = iter(
        [
            (lambda: came_out(a) == ["a", "b"], lambda: Admin(a.kafka).delete([a.topic("more")])),
            (lambda: f"topic '{a.topic('more')}' does not exist" in told, lambda: feed(a, "c")),
            (lambda: came_out(a) == ["a", "b", "c"], lambda: os.kill(os.getpid(), signal.SIGTERM)),
        ]
    )
    step = next(steps)

    def watch(status: Mapping[str, Any]) -> None:
        nonlocal step
        told.append(str(status["error"]))
        due, act = step
        if due():
            act()
            step = next(steps, (lambda: False, lambda: None))

    a.run_until_told(watch)
    assert came_out(a) == ["a", "b", "c"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("policy", ["Earliest", pytest.param("Latest", marks=pytest.mark.chaos)])
def test_a_replay_answers_for_the_same_range(kafka: KafkaConfig, tmp_path: Path, policy: str) -> None:
    """The app halts after all tasks of the epoch that met the loss have committed: its replay must do nothing, although
    still more is gone by then."""
    spec = f"onSourceLoss: {policy}"
    with Bench(kafka, tmp_path, "loss", ECHO_OF_NUMBERS, partitions=2, spec=spec) as bench:
        topic = bench.topics["numbers"]
        write(kafka, topic, range(10))
        first = bench.start()
        first.await_work()
        assert first.stop() == 0
        write(kafka, topic, range(10, 20))
        bench.admin.purge({(topic, 0): 7})
        lossy = last_epoch(bench) + 1
        await_halt(bench.start(env=failpoints(f"epoch.tasks-committed@{lossy}=halt")), "epoch.tasks-committed")
        bench.admin.purge({(topic, 0): 9, (topic, 1): 6})
        write(kafka, topic, range(20, 30))
        last = bench.start()
        left = [n for n in range(30) if not (n % 2 == 0 and 10 <= n < (14 if policy == "Earliest" else 20))]

        def seen() -> list[int]:
            return sorted(json.loads(message.value() or b"")["n"] for message in committed(kafka, bench.topics["echo"]))

        until(lambda: len(seen()) >= len(left), 60, lambda: f"everything that was not lost; it said:\n{last.tail()}")
        assert last.stop() == 0
        assert seen() == left


def write(kafka: KafkaConfig, topic: str, numbers: range) -> None:
    """Sends even numbers to partition 0, odd ones to partition 1."""
    producer = in_order(kafka)
    for n in numbers:
        producer.produce(topic, json.dumps({"n": n}), partition=n % 2)
    assert producer.flush(30) == 0


def test_offsets_without_a_record_are_no_loss(own_kafka: KafkaConfig, tmp_path: Path) -> None:
    """Compaction has taken the first records and some between, and markers of transactions stand between the rest: no
    record stands at the offset that is asked for, and the topic does not begin later for it."""
    a = App(own_kafka, tmp_path, BOTH, "  onSourceLoss: Fail")
    a.create("in")
    alter(own_kafka, a.topic("in"), cleanup_policy="compact")
    a.send("in", *[(key, value) for key, value in ("1a", "2b", "1c", "3d", "2e")])
    assert compact(own_kafka, a.topic("in"), partitions=1) == (5, 3)
    assert [record.offset() for record in committed(own_kafka, a.topic("in"))] == [2, 3, 4]
    a.run()
    assert (came_out_of_both(a), lost(a)) == (list("cde"), 0)
    a.send("in", ("4", "f"))
    a.run()
    assert (came_out_of_both(a), lost(a)) == (list("cdef"), 0)
