# SPDX-License-Identifier: Apache-2.0
"""The long form of tests/kafka/test_counts.py: a minute of short epochs with one stall."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path

import psutil
import pytest

from lib import counted
from lib.app import START_SECONDS, Bench
from lib.faults import stopped_executor
from lib.wait import until
from streamapp.kafka.config import KafkaConfig

pytestmark = pytest.mark.chaos

SECONDS = 60.0
STALL_SECONDS = 8.0
INTERVAL_SECONDS = 0.1


def test_counters_are_exact_after_a_minute_with_a_stall(own_kafka: KafkaConfig, tmp_path: Path) -> None:
    with Bench(own_kafka, tmp_path, "counts", counted.TOPOLOGY, partitions=1, spec=counted.SPEC) as bench:
        sender = counted.Sender(own_kafka, bench.topics["numbers"])
        pace = threading.Event()

        def send_for(seconds: float) -> None:
            end = time.monotonic() + seconds
            for _ in itertools.takewhile(lambda _: time.monotonic() < end, itertools.count()):
                sender.round()
                pace.wait(INTERVAL_SECONDS)

        def settled() -> bool:
            app.require_alive()
            return counted.counters(app.status()) == counted.expected(sender.rounds)

        sender.first_round()
        app = bench.start()
        until(settled, START_SECONDS, "the first round is counted")
        send_for(SECONDS / 2)
        before = app.status()["subTopologies"]
        with stopped_executor(psutil.Process(app.pid)):  # the process that looks; the one that works goes on
            send_for(STALL_SECONDS)
        send_for(SECONDS / 2 - STALL_SECONDS)
        until(settled, 60, f"{sender.rounds} rounds are counted: {counted.expected(sender.rounds)}")
        after = app.status()["subTopologies"]
        assert all(after[name]["epochs"] - before[name]["epochs"] > 50 for name in after)
        assert app.stop() == 0
