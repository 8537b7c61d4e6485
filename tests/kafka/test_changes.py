# SPDX-License-Identifier: Apache-2.0
"""An app whose manifest is changed between two runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lib.app import COUNTED, ECHO, SEEN, TOTALS, Bench
from lib.broker import in_order
from lib.faults import halt_at, kill, require_work
from lib.inprocess import App
from lib.verify import Proof, committed
from streamapp.errors import DataError, InputError, RunError
from streamapp.kafka.admin import TopicSpec
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


MERGED = """
  - {name: raw, stream: {topic: $T-in, value: text}}
  - {name: %s, stream: {topic: $T-more, value: text}}
  - {name: both, merge: [raw, %s]}
  - {name: out, to: {topic: $T-out, value: text}}
"""


def test_sources_come_and_go(kafka: KafkaConfig, tmp_path: Path) -> None:
    """Each has its own position. One that is new reads its topic from the start, and one that comes back goes on."""
    a = App(kafka, tmp_path, COPY % "raw")
    a.create("in", "more", "last")
    a.send("in", ("k", "a1"))
    a.send("more", ("k", "b1"))
    a.run()
    a.change(MERGED % ("sun", "sun"))
    a.run()
    a.send("in", ("k", "a2"))
    a.send("more", ("k", "b2"))
    a.run()
    assert sorted(record.value for record in a.received("out")) == ["a1", "a2", "b1", "b2"]
    a.change(MERGED % ("tide", "tide"))  # the same under another name
    a.send("more", ("k", "b3"))
    a.run()
    a.change(COPY % "raw")
    a.send("in", ("k", "a3"))
    a.send("more", ("k", "b4"))
    a.run()
    assert sorted(record.value for record in a.received("out")) == ["a1", "a2", "a3", "b1", "b2", "b3"]
    a.change(MERGED % ("wave", "wave"))  # without state the position is a topic's
    a.run()
    a.send("more", ("k", "b5"))
    a.run()
    assert sorted(record.value for record in a.received("out")) == ["a1", "a2", "a3", "b1", "b2", "b3", "b4", "b5"]
    a.change((COPY % "raw").replace("$T-in", "$T-more"))  # a name counts less than a topic
    a.send("in", ("k", "a4"))
    a.send("more", ("k", "b6"))
    a.run()
    assert sorted(record.value for record in a.received("out"))[-3:] == ["b4", "b5", "b6"]
    a.change((COPY % "raw").replace("$T-in", "$T-last"))
    a.run()
    a.change(COPY % "raw")
    a.run()
    assert sorted(record.value for record in a.received("out"))[:5] == ["a1", "a2", "a3", "a4", "b1"]


CUSTOMERS = """
  - {name: customers, table: {topic: $T-customers, value: text}}
  - {name: orders, stream: {topic: $T-orders, value: text}}
  - {name: named, from: orders, join: {with: customers, select: {what: left.value, who: right.value}}}
  - {name: named-out, to: {topic: $T-named}}
"""
PAID = """
  - {name: payments, stream: {topic: $T-payments, value: text}}
  - {name: paid, from: payments, join: {with: customers, select: {how: left.value, who: right.value}}}
  - {name: paid-out, to: {topic: $T-paid}}
"""
LOCATED = """
  - {name: places, table: {topic: $T-places, value: text}}
  - {name: located, from: named, join: {with: places, select: {what: left.what, where: right.value}}}
  - {name: located-out, to: {topic: $T-located}}
"""


def test_a_stream_and_a_table_come_to_a_task_that_has_run(kafka: KafkaConfig, tmp_path: Path) -> None:
    """The stream finds the rows of the table that is there, and the new table is read to its end before its first
    lookup."""
    a = App(kafka, tmp_path, CUSTOMERS)
    a.create("customers", "orders", "payments", "places")
    a.send("customers", ("1", "Ann"), ("2", "Bob"))
    a.send("payments", ("2", "cash"))
    a.send("orders", ("1", "tea"))
    a.run()
    a.send("places", *((str(n), f"place {n}") for n in range(500)))
    a.send("orders", ("2", "nuts"))
    a.change(CUSTOMERS + PAID + LOCATED)
    assert [(part.name, len(part.stateful) > 1) for part in a.plan.subtopologies] == [("customers", True)]
    a.run(epoch_records=10)
    a.send("customers", ("2", "Bea"))
    a.run()
    a.send("payments", ("2", "card"), ("3", "none"))
    a.send("orders", ("499", "none"), ("1", "figs"))
    a.run()
    assert [record.value for record in a.received("paid")] == [
        {"how": "cash", "who": "Bob"},
        {"how": "card", "who": "Bea"},
    ]
    found = [(record.value["what"], record.value["where"]) for record in a.received("located")]
    assert sorted(found) == [("figs", "place 1"), ("nuts", "place 2")]
    assert sorted(record.value["what"] for record in a.received("named")) == ["figs", "nuts", "tea"]
    a.change(CUSTOMERS)
    a.send("orders", ("1", "eggs"))
    a.send("payments", ("1", "coin"))
    a.run()
    a.change(CUSTOMERS + PAID + LOCATED)
    with pytest.raises(InputError, match="store 'places' was not part of the version before"):
        a.run()
    a.change(CUSTOMERS + PAID)
    a.run()
    assert [record.value["how"] for record in a.received("paid")] == ["cash", "card", "coin"]


def counted(store: str, by_an_internal_topic: bool = True) -> str:
    """Counts of `in` per key. A value that differs each time is written to a topic before it is counted."""
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
    """The store is refused even without new input, which would have shown the change. A version that never began does
    not bind later ones."""
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
    forget_shape(a)  # like an app that an earlier runtime has run
    a.send("in", ("k", {"x": 2}))
    a.run()
    a.change(SUMMED % "max(x)", "  onBadRecord: Drop")
    with pytest.raises(InputError, match=told):
        a.run()
    assert [record.value for record in a.received("out")] == [{"total": 5}, {"total": 7}]


def forget_shape(app: App) -> None:
    """Deletes the shape of the app's store from its metadata topic."""
    producer = in_order(app.kafka)
    application_id = app.topic("").rstrip("-")
    producer.produce(f"{application_id}-metadata", key=f"/{application_id}/sums/shape".encode(), value=None)
    assert producer.flush(30) == 0


def test_a_store_that_has_missed_records_does_not_come_back(kafka: KafkaConfig, tmp_path: Path) -> None:
    """The nodes that read the input for it have gone on without it."""
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
    """Spark keeps in the state the columns that are used later on; here it keeps everything, always."""
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


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_a_step_more_and_a_step_less_under_load(kafka: KafkaConfig, tmp_path: Path) -> None:
    """R18. The app is upgraded and taken back, each time after a kill in the middle of its work."""
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


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "step",
    [
        "transaction.after-commit#0",
        pytest.param("transaction.before-commit#1", marks=pytest.mark.chaos),
        pytest.param("epoch.tasks-committed", marks=pytest.mark.chaos),
    ],
)
def test_a_group_that_comes_to_a_task_that_has_run_begins_empty(kafka: KafkaConfig, tmp_path: Path, step: str) -> None:
    """R18. All input of the group comes out of its task. It counts the records from then on, once each."""
    caught_up = ["--until-caught-up"]
    with Bench(kafka, tmp_path, "late", SEEN + COUNTED, partitions=2) as bench:
        bench.write(SEEN)
        keys = [f"key-{i}" for i in range(6)]

        def send(numbers: int) -> None:
            producer = in_order(kafka, partitioner="murmur2_random")
            for key in keys:
                producer.produce(f"{bench.prefix}-ticks", key=key.encode(), value=b'{"n": 1}')
            for key in keys * numbers:
                producer.produce(f"{bench.prefix}-numbers", key=key.encode(), value=b'{"n": 2}')
            assert producer.flush(30) == 0

        def counts() -> dict[str, list[int]]:
            found: dict[str, list[int]] = {key: [] for key in keys}
            for message in committed(kafka, f"{bench.prefix}-totals"):
                found[(message.key() or b"").decode()].append(json.loads(message.value() or b"")["n"])
            return found

        send(1)
        assert bench.start(arguments=caught_up).await_exit() == 0
        send(1)
        halt_at(bench, "epoch.tasks-committed")  # its tasks have done an epoch of which the driver does not know yet
        bench.write(SEEN + COUNTED)
        send(3)
        halt_at(bench, step)
        assert bench.start(arguments=caught_up).await_exit() == 0
        found = counts()
        assert {key: len(set(each)) for key, each in found.items()} == {key: len(each) for key, each in found.items()}
        assert {key: max(each) for key, each in found.items()} == dict.fromkeys(keys, 3)
        send(2)
        assert bench.start(arguments=caught_up).await_exit() == 0
        assert {key: max(each) for key, each in counts().items()} == dict.fromkeys(keys, 5)
        assert len(list(committed(kafka, f"{bench.prefix}-echo"))) == 7 * len(keys)


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "step",
    [
        "epoch.tasks-committed",
        "metadata.after-write.offsets",
        "transaction.before-commit#0",
        "transaction.after-commit#1",
    ],
)
def test_a_source_that_comes_and_goes_under_kills(kafka: KafkaConfig, tmp_path: Path, step: str) -> None:
    """R18. An epoch that is under way when another version takes over has the sources that it was planned with."""
    caught_up = ["--until-caught-up"]
    with Bench(kafka, tmp_path, "sources", CUSTOMERS + PAID + LOCATED, partitions=2) as bench:
        keys = [f"key-{i}" for i in range(20)]
        sent = {"orders": 0, "payments": 0}
        topics = ("customers", "orders", "named", "payments", "paid", "places", "located")
        bench.admin.create([TopicSpec(f"{bench.prefix}-{topic}", "test", 2) for topic in topics])

        def send(*streams: str) -> None:
            producer = in_order(kafka, partitioner="murmur2_random")
            for key in keys:
                for table in ("customers", "places"):
                    producer.produce(f"{bench.prefix}-{table}", key=key.encode(), value=f"{table} {key}".encode())
            assert producer.flush(30) == 0
            for stream in streams:
                for key in keys:
                    producer.produce(f"{bench.prefix}-{stream}", key=key.encode(), value=str(sent[stream]).encode())
                sent[stream] += 1
            assert producer.flush(30) == 0

        def received(topic: str, column: str) -> list[tuple[str, int]]:
            found = [((m.key() or b"").decode(), json.loads(m.value() or b"")) for m in committed(kafka, topic)]
            return [(key, int(value[column])) for key, value in found]

        def each(stream: str, first: int = 0) -> list[tuple[str, int]]:
            return sorted((key, number) for key in keys for number in range(first, sent[stream]))

        bench.write(CUSTOMERS)
        send("orders", "payments")
        assert bench.start(arguments=caught_up).await_exit() == 0
        send("orders")
        halt_at(bench, "epoch.tasks-committed")
        bench.write(CUSTOMERS + PAID + LOCATED)
        send("orders", "payments")
        halt_at(bench, step)
        assert bench.start(arguments=caught_up).await_exit() == 0
        assert sorted(received(f"{bench.prefix}-named", "what")) == each("orders")
        assert sorted(received(f"{bench.prefix}-paid", "how")) == each("payments")
        located = received(f"{bench.prefix}-located", "what")
        assert sorted(located) == each("orders", first=2)
        send("orders", "payments")
        halt_at(bench, step)
        bench.write(CUSTOMERS)
        send("orders")
        assert bench.start(arguments=caught_up).await_exit() == 0
        assert sorted(received(f"{bench.prefix}-named", "what")) == each("orders")
        bench.write(CUSTOMERS + PAID)
        app = bench.start(arguments=caught_up)
        assert app.await_exit() == 1
        assert "-payments' of source 'payments' was read by an earlier version" in app.said


def test_a_store_that_its_task_has_gone_on_without_does_not_come_back(kafka: KafkaConfig, tmp_path: Path) -> None:
    def version(groups: str) -> str:
        return SEEN + "".join(COUNTED.replace("counts", each).replace("totals", each) for each in groups)

    a = App(kafka, tmp_path, version("ab"))
    a.create("ticks", "numbers")
    for topic in ("ticks", "numbers"):
        a.send(topic, ("k", {"n": 1}))
    a.run()
    a.change(version("b"))
    a.run()  # no epoch
    a.change(version("ab"))
    a.send("numbers", ("k", {"n": 2}))
    a.run()
    assert [a.table(group)["k"]["n"] for group in "ab"] == [2, 2]
    a.change(version("b"))
    a.send("numbers", ("k", {"n": 3}))
    a.run()
    a.change(version("ab"))
    with pytest.raises(
        InputError, match=r"store 'a' was not part of the version before.*'users' has gone on from epoch"
    ):
        a.run()
    a.change(version("bc"))
    a.send("numbers", ("k", {"n": 4}))
    a.run()
    assert [a.table(group)["k"]["n"] for group in "abc"] == [2, 4, 1]
