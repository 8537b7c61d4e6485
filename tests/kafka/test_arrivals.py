# SPDX-License-Identifier: Apache-2.0
"""The moment when an epoch is cut: as soon as records come to a source that was read to its end. And the partitions
that are waited for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from lib.app import Bench
from lib.broker import in_order
from lib.verify import committed
from lib.wait import until
from streamapp.kafka.config import KafkaConfig
from streamapp.spark.jvm import end_jvm, start_jvm
from streamapp.spark.session import runtime_class_path

pytestmark = pytest.mark.kafka

MERGED = """
  - {name: numbers, stream: {topic: $T-numbers, value: text}}
  - {name: ticks, stream: {topic: $T-ticks, value: text}}
  - {name: both, merge: [numbers, ticks]}
  - {name: totals, groupBy: [key], aggregate: {count: count(*)}}
  - {name: totals-out, to: {topic: $T-totals}}
"""
"""Two sources of one sub-topology."""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("source", ["numbers", "ticks"])
def test_a_record_on_a_quiet_topic_waits_for_no_beat(kafka: KafkaConfig, tmp_path: Path, source: str) -> None:
    with Bench(kafka, tmp_path, "quiet", MERGED, interval="60s") as bench:
        app = bench.start()
        app.await_work()  # an epoch without records: the sources have been looked at
        producer = in_order(kafka)
        producer.produce(bench.topics[source], b"x", b"a")
        assert producer.flush(30) == 0
        until(lambda: committed(kafka, bench.topics["totals"]), 30, "a result, long before the interval is over")
        assert app.stop() == 0


@pytest.fixture
def jvm() -> Iterator[Any]:
    end_jvm()
    own = {"spark.master": "local", "spark.ui.showConsoleProgress": "false"}  # else Spark sets others
    start_jvm({"spark.driver.extraClassPath": runtime_class_path(), **own})
    yield SparkContext._jvm
    end_jvm()


def test_a_silent_partition_of_a_topic_that_is_made_anew_is_waited_for_anew(jvm: Any) -> None:
    kafka010, partition = jvm.org.apache.spark.sql.kafka010, jvm.org.apache.kafka.common.TopicPartition
    # Kafka would be asked about a partition that has been silent for long: there is none here, so the test would fail.
    idle = kafka010.IdlePartitions("orders", 1, False, kafka010.PartitionOffsets(None), jvm.scala.Option.empty())
    one_of = getattr(jvm.scala.collection.immutable, "Map$Map1")
    offset = 2**40  # for Java a number of the right type
    there, other = (one_of(partition(topic, 0), offset) for topic in ("orders", "others"))
    none = there.keySet().empty()
    idle.look(there, there, there, none, False)
    begun = time.monotonic()
    until(lambda: time.monotonic() > begun + 0.005, 5, "it has been silent for longer than it is waited for")
    idle.look(other, other, other, none, False)
    idle.look(there, there, there, none, False)
    assert idle.now().partitions().isEmpty()
