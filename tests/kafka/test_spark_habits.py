# SPDX-License-Identifier: Apache-2.0
"""Habits of Spark that the runtime relies on, and that no interface of Spark's promises: one test for each, with Spark
alone. If one of these fails with another version of Spark, look at the place of ours that the test names.

Habits of Spark that other tests hold, with the runtime in it:

- which calls Spark makes to a store's files, and which changes its writer gets: test_changelog_store.py
- a scan takes a damaged block for the end: in the same file, test_damaged_files_are_replaced_from_the_topic
- which files of the driver are written when: test_metadata_topic.py, test_recovery.py
- which ranges of Kafka a task reads, empty ones left out: test_exactly_once.py, test_source_loss.py
- what a plan counts: test_counts.py; where executors have stores, and how Spark reports their end: test_scaling.py
- columns that no later node uses are left out of the state: test_changes.py
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lib.probe import probe_session

pytestmark = pytest.mark.kafka

_STREAMING = "org.apache.spark.sql.execution.streaming."
ALONE = {
    "spark.sql.extensions": "",
    "spark.plugins": "",
    "spark.sql.streaming.checkpointFileManagerClass": _STREAMING + "checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.sql.streaming.stateStore.providerClass": _STREAMING + "state.HabitStores",
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[SparkSession]:
    with probe_session(root / "tests" / "jvm", tmp_path_factory.mktemp("probe"), ALONE) as session:
        session.conf.set("spark.sql.shuffle.partitions", "2")
        yield session


@dataclass(frozen=True)
class Told:
    """The notes that a query's parts have made."""

    notes: tuple[str, ...]

    def of(self, kind: str) -> list[dict[str, str]]:
        """The fields of the notes that begin so."""
        return [
            {name: text or quoted for name, quoted, text in re.findall(r"(\w+)=(?:'([^']*)'|(\S*))", note)}
            for note in self.notes
            if note.startswith(kind)
        ]


class Habits:
    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._probe: Any = getattr(spark._jvm, _STREAMING + "state.SparkHabits")
        self._spark = spark
        self.folder = folder

    def run(self, name: str, offsets: list[str], names: tuple[str, ...] = ("0",), aggregate: str = "sum(n)") -> Told:
        """Runs a query, or goes on with one, over sources of these names that give these offsets."""
        told = self._probe.run(self._spark._jsparkSession, self.path(name), list(names), aggregate, offsets)
        return Told(tuple(told))

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def stamps(self) -> list[str]:
        return list(self._probe.stamps(self._spark._jsparkSession, self.path("stamps")))


@pytest.fixture(scope="module")
def habits(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Habits:
    return Habits(spark, tmp_path_factory.mktemp("queries"))


@pytest.fixture(scope="module")
def first(habits: Habits) -> Told:
    return habits.run("sum", ["1", "1 ", "1 ", "1 "])


@pytest.fixture(scope="module")
def again(habits: Habits, first: Told) -> Told:
    """The same query after a stop."""
    assert first.notes
    return habits.run("sum", ["3"])


def test_offsets_are_compared_as_text(first: Told) -> None:
    """EmptyEpochs in PacedKafkaSource.scala: an epoch without records has the same offsets, written in another way."""
    asked = [(call["start"], call["end"]) for call in first.of("source=0 latest")]
    assert asked[:3] == [("0", "1"), ("1", "1 "), ("1 ", "1 ")]
    assert [batch["epoch"] for batch in first.of("sink")] == ["0", "1"], "the same text is no epoch"


def test_a_query_that_goes_on_is_told_the_text_of_its_last_offset(first: Told, again: Told) -> None:
    """EmptyEpochs begins with that text."""
    assert first.of("source=0 initial")
    assert not again.of("source=0 initial")
    assert again.of("source=0 latest")[0]["start"] == "1 "


def test_the_default_limit_is_asked_for_once(first: Told) -> None:
    """PacedStream in PacedKafkaSource.scala: each epoch has a limit of its own."""
    assert len(first.of("source=0 default")) == 1 < len(first.of("source=0 latest"))


def test_a_position_stands_under_its_source_s_name(habits: Habits) -> None:
    """PacedKafkaSource.scala takes a source's number from its folder, EpochRanges.scala and predecessors.py from a line
    of the log. A new source has no position, and one that is gone is passed over."""

    def log(epoch: int) -> tuple[str, list[str]]:
        lines = (Path(habits.path("union")) / "offsets" / str(epoch)).read_text().splitlines()
        return lines[0], sorted(lines[2:])

    told = habits.run("union", ["5"], names=("0", "1"), aggregate="")
    assert {note.split()[0] for note in told.notes if note.startswith("source=")} == {"source=0", "source=1"}
    assert log(0) == ("v2", ["0:5", "1:5"]), "a version, settings, and then a line for each source"
    again = habits.run("union", ["6"], names=("12", "1"), aggregate="")
    assert [call["start"] for call in again.of("source=1 latest")] == ["5"]
    assert not again.of("source=1 initial")
    assert [call["start"] for call in again.of("source=12 latest")] == ["0"]
    assert again.of("source=12 initial")
    assert log(1) == ("v2", ["12:6", "1:6"])


def test_an_epoch_is_noted_before_it_is_planned_and_its_end_when_the_sink_returns(first: Told, again: Told) -> None:
    """All that how-it-works.md says of a crash relies on it; so does TopicCheckpointFileManager, where ends wait for
    ranges."""
    for number, batch in enumerate([*first.of("sink"), *again.of("sink")]):
        assert batch["epoch"] == str(number)
        assert batch["offsets"] == ",".join(map(str, range(number + 1)))
        assert batch["commits"] == ",".join(map(str, range(number)))
    for planned in first.of("source=0 plan end='1 '"):
        assert planned["offsets"] == "0,1"


def test_an_epoch_s_thread_knows_its_number_and_its_run(first: Told, again: Told) -> None:
    """KeyedOperator.scala makes of them the values that Spark gives its own operators; Arrivals.scala uses the run."""
    runs = []
    for told, epochs in ((first, ["0", "1"]), (again, ["2"])):
        (made,) = told.of("source=0 made")
        assert {batch["run"] for batch in told.of("sink")} == {made["run"]}
        runs.append(made["run"])
        assert [batch["property"] for batch in told.of("sink")] == epochs
        states = {state["epoch"]: state for state in told.of("state")}
        assert list(states) == epochs
        for epoch, state in states.items():
            expected = {"version": epoch, "operator": "0", "partitions": "2", "group": "true", "at": "state"}
            assert state == {"epoch": epoch, **expected}
    assert len(set(runs)) == 2


def test_a_task_loads_a_store_at_one_version_though_twice(first: Told) -> None:
    """TaskTransaction.begin, ChangelogRocksDB.load: the second load of an attempt finds what the first has made."""
    loads = [(load["announced"], load["partition"], load["version"], load["readOnly"]) for load in first.of("load")]
    each = [(epoch, partition, epoch, kind) for epoch in "01" for partition in "01" for kind in ("false", "true")]
    assert sorted(loads) == each


def test_a_store_can_be_closed_as_soon_as_it_has_committed(habits: Habits) -> None:
    """StorePartition.scala: its task's transaction may not be committed by then."""
    assert habits.stamps() == ["the task goes on, the store is closed: true"]


def test_settings_made_while_an_epoch_is_cut_are_those_of_its_plan(first: Told) -> None:
    """EpochStyle.scala."""
    assert [plan["generated"] for plan in first.of("plan")] == ["true", "false"]


def test_properties_of_an_epoch_s_thread_reach_all_its_tasks(first: Told, again: Told) -> None:
    """TransactionTimeout, EpochRanges and ProcessorShare give tasks the values of their epoch by them."""
    for told, announced, chosen in ((first, {"0", "1"}, {"1"}), (again, {"2"}, {"3"})):
        for kind in ("map", "reduce"):
            tasks = told.of(kind)
            assert {task["announced"] for task in tasks} == announced
            assert {task["chosen"] for task in tasks} == chosen


def test_what_map_tasks_have_told_is_there_before_the_tasks_behind_the_shuffle_start(first: Told) -> None:
    """EpochTimes.after, which a task behind the shuffle reads."""
    assert [task["ended"] for task in first.of("reduce")] == ["2"] * 4


def test_a_plan_counts_what_its_scans_have_read(first: Told) -> None:
    """EpochReports.scala, when the sink has run it."""
    assert [plan["rows"] for plan in first.of("read")] == ["20", "20"]


@pytest.mark.parametrize(
    ("aggregate", "kind"), [("sum(n)", "Hash"), ("collect_list(n)", "ObjectHash"), ("max(word)", "Sort")]
)
def test_a_table_is_aggregated_by_these_operators(habits: Habits, aggregate: str, kind: str) -> None:
    """KeyedAggregateExec.scala, which puts one operator in the place of those behind the shuffle."""
    (plan,) = [note for note in habits.run(kind, ["1"], aggregate=aggregate).notes if note.startswith("plan")]
    one = f"{kind}Aggregate"
    assert plan.endswith(f" {one} StateStoreSave {one} StateStoreRestore {one} Exchange {one} MicroBatchScan")


JSON_SCHEMA = (
    "n BIGINT, price DECIMAL(10,2), name STRING, at TIMESTAMP, tags ARRAY<STRING>, of STRUCT<a: INT, b: DOUBLE>, "
    "__corrupt STRING"
)
JSON_TEXTS: list[bytes] = [
    b"",
    b" ",
    b"null",
    b"7",
    b'"text"',
    b"[]",
    b'[{"n": 1}]',
    b"{",
    b"{}",
    b"{}}",
    b'{"n": 1} {"n": 2}',
    b' {"n": 1}',
    b'\xef\xbb\xbf{"n": 1}',
    '{"n": 1}'.encode("utf-16-le"),
    '{"n": 1}'.encode("utf-16-be"),
    '{"n": 1}'.encode("utf-32-le"),
    b"{\x00}",
    b"{'n': 1}",
    b"{n: 1}",
    b'{"n": 1,}',
    b'{"n": 01}',
    b'{"n": 9223372036854775808}',
    b'{"n": 1.5, "name": "kept"}',
    b'{"n": "1", "price": "2.5"}',
    b'{"n": 1, "n": 2}',
    b'{"N": 1}',
    b'{"price": 12345678901.5}',
    b'{"price": NaN, "of": {"b": NaN}}',
    b'{"of": {"b": "Infinity"}, "n": 3}',
    b'{"name": {"as": ["text", 1.50]}}',
    b'{"n": 1, "name": {"as" : {"deep": [1.50 , null]}}, "tags": [{"x": 1.50}]}',
    b'{"name": "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80 \\u20ac \\ud83d\\ude00 \\ud83d"}',
    b'{"name": "\xff\xfe"}',
    b'{"name": "\xc0\x80"}',
    b'{"name": "\xed\xa0\xbd"}',
    b'{"name": "a\x00b"}',
    b'{"name": "a\nb"}',
    b'{"name": "cut',
    b'{"at": "2026-11-27T10:00:00Z", "tags": ["x", null, 1]}',
    b'{"at": "yesterday"}',
    b'{"tags": "x"}',
    b'{"of": [1, 2]}',
    b'{"of": {"a": 2147483648, "b": 1e400}}',
    b'{"of": null, "tags": null}',
    b'{"unknown": {"deep": [{"n": 1}]}, "n": 5}',
    b'{"__corrupt": "not for you", "n": 5}',
]


@pytest.mark.parametrize("mode", ["PERMISSIVE", "FAILFAST"])
def test_what_reads_json_here_gives_what_spark_gives(spark: SparkSession, mode: str) -> None:
    """FromJson.scala. Half of the further texts are some of these with a byte changed."""
    chooser = random.Random(11)
    texts = list(JSON_TEXTS)
    for _ in range(2000):
        changed = bytearray(chooser.choice([text for text in JSON_TEXTS if text]))
        changed[chooser.randrange(len(changed))] = chooser.choice(b'{}[]",:0 \x00\xef\xc3n')
        texts.append(bytes(changed))
    options = {"mode": mode, "columnNameOfCorruptRecord": "__corrupt", "timeZone": "UTC"}
    probe = spark._jvm.org.apache.spark.sql.streamapp.JsonProbe  # type: ignore[union-attr]
    found = json.loads(probe.read(texts, JSON_SCHEMA, options))
    different = [(text, *each) for text, each in zip(texts, found, strict=True) if len(set(each)) > 1]
    assert not different
    assert len({theirs for theirs, *_ in found}) > 50


def test_spark_reads_json_again_for_each_condition(spark: SparkSession) -> None:
    """The reason why FromJson.scala says that it is expensive: then a text is read once, however many conditions use
    it."""
    raw = spark.createDataFrame([("{}",)], "value STRING")
    read = raw.select(F.from_json("value", "a INT, b INT, c INT").alias("json"))
    rows = read.filter("json IS NOT NULL").select("json.*").filter("a > 1").filter("b > c").select("a", "b")
    probe = spark._jvm.org.apache.spark.sql.streamapp.JsonProbe  # type: ignore[union-attr]
    theirs, ours = probe.readings(rows._jdf)
    assert theirs > 1
    assert ours == 1
