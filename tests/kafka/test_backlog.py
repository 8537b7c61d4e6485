# SPDX-License-Identifier: Apache-2.0
"""An hour of records waits: the app processes them in epochs of the size that fits the time, in the memory there is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from lib.app import Bench
from lib.broker import in_order
from lib.faults import jvm
from lib.verify import committed
from lib.wait import until
from streamapp.kafka.config import KafkaConfig
from streamapp.spark.jvm import end_jvm, start_jvm
from streamapp.spark.session import runtime_class_path

pytestmark = pytest.mark.kafka

RECORDS = 1_800_000
"""The records of an hour, at 500 a second."""
VALUE = b"x" * 400
MOST_MB = 850
"""The most memory of the JVM: some 300 MB more than it takes to count a few keys, and much less than the backlog on top
of that."""
KEYS = [f"key-{number}".encode() for number in range(1000)]
TOPOLOGY = """
  - {name: lines, stream: {topic: $T-numbers, value: text}}
  - {name: totals, groupBy: [key], aggregate: {count: count(*), characters: sum(length(value))}}
  - {name: totals-out, to: {topic: $T-totals}}
"""


def _fill(kafka: KafkaConfig, topic: str) -> None:
    batches = {"linger.ms": 20, "batch.size": 1 << 20, "compression.type": "lz4"}
    producer = in_order(kafka, **batches, **{"queue.buffering.max.messages": 500_000})
    for number in range(RECORDS):
        key = KEYS[number % len(KEYS)]
        try:
            producer.produce(topic, VALUE, key)
        except BufferError:
            producer.poll(1)
            producer.produce(topic, VALUE, key)
        if number % 10_000 == 0:
            producer.poll(0)
    assert producer.flush(120) == 0


@pytest.mark.chaos
@pytest.mark.timeout(600)
def test_a_backlog_is_worked_off_in_bounded_memory(kafka: KafkaConfig, tmp_path: Path) -> None:
    with Bench(kafka, tmp_path, "backlog", TOPOLOGY) as bench:
        _fill(kafka, bench.topics["numbers"])
        app = bench.start()

        def caught_up() -> list[int]:
            app.require_alive()
            parts = app.status().get("subTopologies", {}).values()
            return [part["epochs"] for part in parts if part["recordsIn"] == RECORDS]

        (epochs,) = until(caught_up, 300, "all records are read", every=0.2)
        memory = dict(line.split(":", 1) for line in Path(f"/proc/{jvm(app).pid}/status").read_text().splitlines())
        app.stop()
        assert epochs >= 4, "the lag has decided how large an epoch is"
        peak = int(memory["VmHWM"].split()[0]) >> 10
        assert peak < MOST_MB < RECORDS * len(VALUE) / 1_000_000 + 300, f"{peak} MB were resident"
        results = committed(kafka, bench.topics["totals"])
        totals = {message.key(): json.loads(message.value() or b"") for message in results}
        each = RECORDS // len(KEYS)
        assert totals == {key: {"count": each, "characters": each * len(VALUE)} for key in KEYS}
        print(f"{epochs} epochs, {peak} MB")


# --- the rule itself ----------------------------------------------------------------------------------------


@pytest.fixture
def pacer() -> Iterator[Any]:
    end_jvm()
    own = {"spark.master": "local", "spark.ui.showConsoleProgress": "false"}  # else Spark sets others
    start_jvm({"spark.driver.extraClassPath": runtime_class_path(), **own})
    yield SparkContext._jvm.org.apache.spark.sql.streamapp.EpochPacer()  # type: ignore[union-attr]
    end_jvm()


def test_epochs_grow_and_shrink_to_the_time_aimed_at(pacer: Any) -> None:
    first = pacer.limit()
    pacer.observe(first, 20_000)
    assert pacer.limit() == first, "the first epoch is slow because everything is new"
    pacer.observe(first, 2_000)
    assert pacer.limit() == 2 * first
    pacer.observe(10, 20_000)
    assert pacer.limit() == 2 * first, "a small epoch says nothing about how large ones run"
    pacer.observe(2 * first, 3_000)
    assert pacer.limit() == 2 * first, "it is just right"
    pacer.observe(2 * first, 12_000)
    assert pacer.limit() == first // 2
    pacer.observe(first // 2, 100)
    assert pacer.limit() == 4 * first, "far from the time aimed at, it grows fast"
    pacer.observe(4 * first, 24_000)
    assert pacer.limit() == first // 2
    for _ in range(50):
        pacer.observe(pacer.limit(), 29_000)
    assert pacer.limit() == 1000, "an epoch never gets so small that it only costs"
    for _ in range(50):
        pacer.observe(pacer.limit(), 40_000)
    assert pacer.limit() == 1, "but no transaction may take as long as its timeout"
    pacer.drain()
    assert pacer.limit() == 0, "an app that stops takes no more"
