# SPDX-License-Identifier: Apache-2.0
"""In a backlog all sources advance together: up to the same time of their records, however many records that is."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lib.broker import in_order
from lib.inprocess import App
from lib.probe import probe_session
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.kafka

BEGIN = 1_700_000_000_000
DAY = 24 * 3600 * 1000
Topics = list[list[list[int]]]
"""The timestamps of the records, by source and partition; that of the end of a transaction is negative."""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[SparkSession]:
    with probe_session(root / "tests" / "jvm", tmp_path_factory.mktemp("probe")) as session:
        yield session


@dataclass(frozen=True)
class Epoch:
    looks: int
    reads: int
    """How often it asked for a single record."""
    ends: tuple[int, ...]
    """The end of each partition, source by source."""
    later: tuple[bool, ...]


def cut(spark: SparkSession, topics: Topics, most: int, by_time: Sequence[bool] = ()) -> list[Epoch]:
    probe: Any = spark._jvm.org.apache.spark.sql.kafka010.StepProbe  # type: ignore[union-attr]
    told = probe.run(topics, list(by_time) or [True] * len(topics), most)
    return [
        Epoch(looks, reads, tuple(rest[::2]), tuple(each == 1 for each in rest[1::2]))
        for looks, reads, *rest in map(list, told)
    ]


def spread(chooser: random.Random, records: int, over: int) -> list[int]:
    return sorted(BEGIN + chooser.randrange(over) for _ in range(records))


def in_transactions(records: list[int], each: int) -> list[int]:
    """The records, and the ends of their transactions, which are written long after."""
    found = []
    for first in range(0, len(records), each):
        found += [*records[first : first + each], -(BEGIN + 500 * DAY + first)]
    return found


@pytest.mark.parametrize("each", [0, 7])
def test_all_partitions_are_read_up_to_the_same_time(spark: SparkSession, each: int) -> None:
    """Also where the records were written in transactions, of so many each."""
    chooser = random.Random(5)
    dense = [spread(chooser, 20_000, 7 * DAY), spread(chooser, 9_000, 7 * DAY)]
    sparse = [spread(chooser, 100, 7 * DAY), [BEGIN + 5 * DAY], []]
    if each:
        dense = [in_transactions(records, each) for records in dense]
        sparse = [in_transactions(records, each) for records in sparse]
    partitions = dense + sparse
    before = [0] * len(partitions)
    epochs = cut(spark, [dense, sparse], 1000)
    for epoch in epochs:
        taken = [end - start for start, end in zip(before, epoch.ends, strict=True)]
        assert 0 < sum(taken[:2]) <= 1000
        assert sum(taken[2:]) <= 1000
        cuts = [(records[:end], records[end:]) for records, end in zip(partitions, epoch.ends, strict=True)]
        read = max(at for records, _ in cuts for at in records[-2:])
        waiting = [min(at for at in records if at >= 0) for _, records in cuts if max(records, default=-1) >= 0]
        assert read <= min(waiting, default=read)
        assert epoch.later == tuple(n == 0 and bool(rest) for n, (_, rest) in zip(taken, cuts, strict=True))
        before = list(epoch.ends)
    assert before == [len(records) for records in partitions]
    assert len(epochs) < 2 * (29 if not each else 34), "an epoch is half full at least"
    assert sum(epoch.looks for epoch in epochs[1:]) < 12 * len(epochs)
    assert epochs[0].looks < 40
    assert max(epoch.reads for epoch in epochs) <= (25 if each else 5) * len(partitions)


def test_records_of_one_time_are_divided(spark: SparkSession) -> None:
    epochs = cut(spark, [[[BEGIN] * 5_000, [BEGIN] * 5_000], [[BEGIN] * 300]], 1000)
    assert epochs[-1].ends == (5_000, 5_000, 300)
    assert len(epochs) <= 11
    for epoch in epochs[:-1]:
        assert abs(epoch.ends[0] - epoch.ends[1]) <= len(epochs)


def test_a_record_from_the_far_future_holds_nothing_up(spark: SparkSession) -> None:
    chooser = random.Random(6)
    far = [4_102_444_800_000]
    dense, behind = spread(chooser, 10_000, DAY), spread(chooser, 10_000, DAY)
    epochs = cut(spark, [[dense], [far + behind]], 1000)
    middle = epochs[len(epochs) // 2].ends
    assert middle[0] > 3_000
    assert middle[1] > 3_000
    both = cut(spark, [[far + dense], [far + behind]], 1000)
    assert len(both) <= 25
    assert all(epoch.looks <= 25 for epoch in both)


def test_who_has_times_of_its_own_advances_by_its_share(spark: SparkSession) -> None:
    chooser = random.Random(7)
    epochs = cut(
        spark,
        [[spread(chooser, 10_000, DAY)], [[BEGIN] * 400], [spread(chooser, 2_000, DAY)]],
        1000,
        [True, False, True],
    )
    for epoch in epochs[:-1]:
        assert abs(epoch.ends[1] / 400 - epoch.ends[0] / 10_000) < 0.15
    alone = cut(spark, [[[BEGIN] * 10_000], [[BEGIN] * 500]], 1000, [False, False])
    assert len(alone) == 10
    assert all(abs(epoch.ends[1] / 500 - epoch.ends[0] / 10_000) < 0.02 for epoch in alone)


def test_records_out_of_order_come_to_an_end(spark: SparkSession) -> None:
    for seed in range(20):
        chooser = random.Random(seed)
        topics = [
            [
                [
                    BEGIN + chooser.choice([at, at // 2, DAY - at, 0])
                    for at in range(0, 3_000 * chooser.randrange(1, 50), 100)
                ]
                for _ in range(chooser.randrange(1, 4))
            ]
            for _ in range(chooser.randrange(1, 4))
        ]
        by_time = [chooser.random() < 0.8 for _ in topics]
        epochs = cut(spark, topics, 200, by_time)
        assert epochs[-1].ends == tuple(len(records) for topic in topics for records in topic)
        longest = max(sum(map(len, topic)) for topic in topics)
        assert len(epochs) < 50 + 10 * longest / 200, seed


def test_nothing_is_asked_where_all_fits(spark: SparkSession) -> None:
    chooser = random.Random(8)
    (epoch,) = cut(spark, [[spread(chooser, 900, DAY)], [spread(chooser, 50, DAY)]], 1000)
    assert epoch.looks == 0


def send_in_transactions(app: App, topic: str, partition: int, records: Sequence[tuple[str, str, int]]) -> None:
    producer = in_order(app.kafka, **{"transactional.id": f"{app.prefix}-{topic}-{partition}"})
    producer.init_transactions(30)
    for first in range(0, len(records), 10):
        producer.begin_transaction()
        for key, value, at in records[first : first + 10]:
            producer.produce(app.topic(topic), value, key, partition, timestamp=at)
        producer.commit_transaction(30)


@pytest.mark.parametrize("again", [False, True])
def test_a_record_meets_the_row_of_its_own_time(kafka: KafkaConfig, tmp_path: Path, again: bool) -> None:
    """In a backlog of 25 epochs, and in one that another run has read half of before, and that was written in
    transactions: these have ended much later than what is in them."""
    topology = """
  - {name: rates, table: {topic: $T-rates, value: long, bootstrap: false}}
  - {name: orders, stream: {topic: $T-orders, value: long}}
  - name: priced
    join: {with: rates, type: left, select: {order: orders.value, rate: rates.value}}
  - {name: out, to: {topic: $T-out}}
"""
    app = App(kafka, tmp_path, topology)
    app.create("rates", "orders", partitions=2)
    chooser = random.Random(9)
    keys = [f"key-{number}" for number in range(8)]
    # Both partitions of each topic begin at the beginning, and end at the end.
    rates = [(at, keys[at % 8]) for at in range(0, 2_000_000, 37_001)]
    orders = sorted((int(2_000_000 * chooser.random() ** 2), chooser.choice(keys)) for _ in range(2_500))
    parts = ((0, 1_000_000), (1_000_000, 2_000_000)) if again else ((0, 2_000_000),)
    for begin, end in parts:
        for topic, records in (("rates", rates), ("orders", orders)):
            for partition in range(2):
                new = [(at, key) for at, key in records if begin <= at < end and keys.index(key) % 2 == partition]
                sent = [(key, str(at), BEGIN + at) for at, key in new]
                if again:
                    send_in_transactions(app, topic, partition, sent)
                else:
                    app.send(topic, *sent, partition=partition)
        app.run(epoch_records=100)
        assert sum(part["epochs"] for part in app.statuses[-1]["subTopologies"].values()) > 5
    times = {key: [at for at, of in rates if of == key] for key in keys}
    expected = []
    for at, key in orders:
        before = bisect_right(times[key], at)
        expected.append((key, at, times[key][before - 1] if before else None))
    found = [(record.key, record.value["order"], record.value["rate"]) for record in app.received("out")]
    assert sorted(found, key=str) == sorted(expected, key=str)
