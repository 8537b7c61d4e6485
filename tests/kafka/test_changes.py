# SPDX-License-Identifier: Apache-2.0
"""An app whose manifest is changed between two runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lib.app import ECHO, TOTALS, Bench
from lib.broker import in_order
from lib.faults import kill, require_work
from lib.inprocess import App
from lib.verify import Proof
from streamapp.errors import DataError, InputError, RunError
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

CHAIN = """
  - {name: left, stream: {topic: $T-in, value: text}}
  - {name: right, stream: {topic: $T-more, value: text}}
  - {name: %(first)s, from: left, join: {with: right, within: 1 hour, select: {word: left.value}}, store: pairs}
  - {name: %(second)s, groupBy: [word], aggregate: {'n': count(*)}, store: words}
  - {name: out, to: {topic: $T-out}}
"""
COPY = """
  - {name: %s, stream: {topic: $T-in, value: text}}
  - {name: out, to: {topic: $T-out, value: text}}
"""


def test_a_stateful_node_may_be_renamed_while_its_store_stays(kafka: KafkaConfig, tmp_path: Path) -> None:
    a = App(kafka, tmp_path, CHAIN % {"first": "joined", "second": "counts"})
    a.create("in", "more")
    a.send("in", ("k", "a"), ("k", "b"))
    a.send("more", ("k", "x"))
    a.run()
    a.change(CHAIN % {"first": "matched", "second": "per-word"})
    a.send("in", ("k", "a"))
    a.run()
    assert [(r.key, r.value["n"]) for r in sorted(a.received("out"), key=lambda r: (r.key, r.value["n"]))] == [
        ("a", 1),
        ("a", 2),
        ("b", 1),
    ]


@pytest.mark.parametrize(
    "topology",
    [
        COPY % "lines",
        """
  - {name: early, stream: {topic: $T-more, value: text}}
  - {name: raw, stream: {topic: $T-in, value: text}}
  - {name: both, merge: [early, raw]}
  - {name: out, to: {topic: $T-out, value: text}}
""",
    ],
    ids=["renamed", "another-before-it"],
)
def test_a_position_is_not_lost_with_its_name(kafka: KafkaConfig, tmp_path: Path, topology: str) -> None:
    a = App(kafka, tmp_path, COPY % "raw")
    a.create("in", "more")
    a.send("in", ("k", "a"))
    a.run()
    a.change(topology)
    with pytest.raises(InputError, match="Name the source 'raw' again"):
        a.run()
    a.change(COPY % "raw")
    a.send("in", ("k", "b"))
    a.run()
    assert [record.value for record in a.received("out")] == ["a", "b"]


def test_another_number_of_sources_is_refused_at_once(kafka: KafkaConfig, tmp_path: Path) -> None:
    a = App(kafka, tmp_path, COPY % "raw")
    a.create("in", "more")
    a.send("in", ("k", "a"))
    a.run()
    a.change("""
  - {name: raw, stream: {topic: $T-in, value: text}}
  - {name: raw-2, stream: {topic: $T-more, value: text}}
  - {name: both, merge: [raw, raw-2]}
  - {name: out, to: {topic: $T-out, value: text}}
""")
    with pytest.raises(InputError, match="has a position in 1 input and would have one in 2"):
        a.run()


def counted(store: str, by_an_internal_topic: bool = True) -> str:
    """Counts of `in` per key. What is not the same twice is written down before it is counted."""
    marked = "  - {name: marked, with: {mark: rand()}}\n" if by_an_internal_topic else ""
    return f"""
  - {{name: raw, stream: {{topic: $T-in, value: text}}}}
{marked}  - {{name: counts, groupBy: [key], aggregate: {{'n': count(*)}}, store: {store}}}
  - {{name: out, to: {{topic: $T-out}}}}
"""


def begun(kafka: KafkaConfig, folder: Path, topology: str) -> App:
    """An app that has counted one record."""
    a = App(kafka, folder, topology)
    a.create("in")
    a.send("in", ("k", "a"))
    a.run()
    return a


@pytest.mark.parametrize("first", [True, False], ids=["by-a-topic", "directly"])
def test_records_that_come_by_another_way_are_refused(kafka: KafkaConfig, tmp_path: Path, first: bool) -> None:
    """Its position is in other topics: all would be counted again."""
    a = begun(kafka, tmp_path, counted("sums", first))
    a.change(counted("sums", not first))
    a.send("in", ("k", "b"))
    with pytest.raises(InputError, match=r"store 'sums' has its position in .* and would read .*give the node another"):
        a.run()
    a.change(counted("others", not first))
    a.run()
    assert sorted(record.value["n"] for record in a.received("out")) == [1, 2]  # it began anew


SUMMED = """
  - {name: in, stream: {topic: $T-in, value: {format: json, schema: "x INT"}}}
  - {name: sums, groupBy: [key], aggregate: {total: %s}}
  - {name: out, to: {topic: $T-out}}
"""


def test_a_store_that_would_mean_something_else_is_refused_at_once(kafka: KafkaConfig, tmp_path: Path) -> None:
    """Also where there is no new input, which would have shown it. What only failed to begin binds nobody."""
    a = App(kafka, tmp_path, SUMMED % "count(x)")
    a.create("in")
    a.send("in", ("k", "no JSON"))
    with pytest.raises(DataError, match="cannot be read as json"):
        a.run()
    a.change(SUMMED % "sum(x)", "  onBadRecord: Drop")
    a.send("in", ("k", {"x": 5}))
    a.run()
    a.change(SUMMED % "max(x)", "  onBadRecord: Drop")
    told = r"store 'sums' \(node 'sums', changelog .*-sums-changelog\) holds state that would mean something else: "
    told += r"`groupBy by key: total = sum\(x\)` becomes `groupBy by key: total = max\(x\)`; undo the change"
    with pytest.raises(InputError, match=told):
        a.run()
    a.change(SUMMED % "sum(x)", "  onBadRecord: Drop")
    forget_shape(a)  # as an app has none that an earlier runtime has run
    a.send("in", ("k", {"x": 2}))
    a.run()
    a.change(SUMMED % "max(x)", "  onBadRecord: Drop")
    with pytest.raises(InputError, match=told):
        a.run()
    assert [record.value for record in a.received("out")] == [{"total": 5}, {"total": 7}]


def forget_shape(app: App) -> None:
    """Deletes what its metadata has on record of what its store holds."""
    producer = in_order(app.kafka)
    application_id = app.topic("").rstrip("-")
    producer.produce(f"{application_id}-metadata", key=f"/{application_id}/sums/shape".encode(), value=None)
    assert producer.flush(30) == 0


def test_a_store_that_has_missed_records_does_not_come_back(kafka: KafkaConfig, tmp_path: Path) -> None:
    """What reads the input for it has gone on without it."""
    a = begun(kafka, tmp_path, counted("sums"))
    a.change(counted("others"))
    a.send("in", ("k", "b"))
    a.run()
    a.change(counted("sums"))
    a.send("in", ("k", "c"))
    with pytest.raises(InputError, match=r"store 'sums' was not part of the version before.*'raw' has gone on"):
        a.run()
    a.change(counted("others"))
    a.run()
    assert sorted(record.value["n"] for record in a.received("out")) == [1, 1, 2]


def test_a_store_that_has_missed_nothing_comes_back(kafka: KafkaConfig, tmp_path: Path) -> None:
    """The version without it never came to an epoch."""
    a = begun(kafka, tmp_path, counted("sums"))
    a.change(counted("others"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("streamapp.spark.queries.Queries.start", no_query)
        with pytest.raises(RunError, match="no query today"):
            a.run()
    a.change(counted("sums"))
    a.send("in", ("k", "b"))
    a.run()
    assert sorted(record.value["n"] for record in a.received("out")) == [1, 2]


def no_query(*_: object, **__: object) -> None:
    raise RunError("no query today")


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (
            """{name: sums, groupBy: [key], aggregate: {'n': count(*), total: sum(x)}}
  - {name: shown, select: {'n': 'n'}}
  - {name: out, to: {topic: $T-out}}""",
            """{name: sums, groupBy: [key], aggregate: {'n': count(*), total: sum(x)}}
  - {name: out, to: {topic: $T-out}}""",
            {"n": 2, "total": 7},
        ),
        (
            "{name: sums, groupBy: [key], aggregate: {'n': count(*), total: sum(x)}}",
            """{name: sums, groupBy: [key], aggregate: {'n': count(*), total: sum(x)}}
  - {name: out, to: {topic: $T-out}}""",
            {"n": 2, "total": 7},
        ),
        (
            """{name: sums, join: {with: more, within: 1 hour, select: {'y': more.y}}}
  - {name: out, to: {topic: $T-out}}""",
            """{name: sums, join: {with: more, within: 1 hour, select: {x: in.x, 'y': more.y}}}
  - {name: out, to: {topic: $T-out}}""",
            {"x": 5, "y": 9},
        ),
    ],
    ids=["aggregate", "store-alone", "join"],
)
def test_what_later_nodes_use_does_not_change_the_state(
    kafka: KafkaConfig, tmp_path: Path, before: str, after: str, shown: dict[str, int]
) -> None:
    """Spark keeps in the state what is used later on: here that is everything, always."""
    sources = """
  - {name: more, stream: {topic: $T-more, value: {format: json, schema: "y INT"}}}
  - {name: in, stream: {topic: $T-in, value: {format: json, schema: "x INT"}}}
  - """
    a = App(kafka, tmp_path, sources + before)
    a.create("in", "more")
    a.send("in", ("k", {"x": 5}))
    a.run()
    a.change(sources + after)
    a.send("in", ("k", {"x": 2}))
    a.send("more", ("k", {"y": 9}))
    a.run()
    assert shown in [record.value for record in a.received("out")]


ONE_STEP_MORE = TOTALS.replace(
    "- {name: totals, groupBy",
    "- {name: whole, filter: n IS NOT NULL}\n  - {name: marked, with: {even: n % 2 = 0}}\n  - {name: totals, groupBy",
)


@pytest.mark.timeout(600)
def test_a_step_more_and_a_step_less_under_load(kafka: KafkaConfig, tmp_path: Path) -> None:
    """R18. Upgraded and taken back, each time after a kill in the middle of its work."""
    assert ONE_STEP_MORE != TOTALS
    with (
        Bench(kafka, tmp_path, "steps", TOTALS + ECHO) as bench,
        Proof(bench, load := bench.load(seed=1801, rate=200)) as proof,
    ):
        load.start()
        for topology in (TOTALS, ONE_STEP_MORE):
            bench.write(topology + ECHO)
            app = bench.start()
            app.await_work(3)
            require_work(bench, load)
            kill(app)
            proof.require_sound()
        bench.write(TOTALS + ECHO)
        app = bench.start()
        app.await_work()
        proof.finish(app)
