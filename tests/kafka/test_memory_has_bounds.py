# SPDX-License-Identifier: Apache-2.0
"""An app's memory outside of Java's heap, and for partitions that have gone elsewhere, does not grow with time."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from lib.inprocess import App
from streamapp.kafka.config import KafkaConfig

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]

BOTH = """
  - {name: in, stream: {topic: $T-in, value: text}}
  - {name: all, from: in, to: {topic: $T-all}}
  - {name: counts, from: in, groupBy: [value], aggregate: {'n': count(*)}}
  - {name: out, to: {topic: $T-out}}
"""
LATER_MS = 3 * 60 * 60 * 1000


def test_stores_share_their_memory_and_what_is_unused_is_closed(kafka: KafkaConfig, tmp_path: Path) -> None:
    app = App(kafka, tmp_path, BOTH)
    app.create("in", partitions=2)
    for partition in (0, 1):
        app.send("in", (None, "x"), partition=partition)
    seen: list[tuple[int, int]] = []

    def done(records: int) -> bool:
        everywhere = sum(int(row["n"]) for row in app.latest("out").values()) if app.received("all") else 0
        return len(app.received("all")) == everywhere == records

    def watch(status: Mapping[str, Any]) -> None:
        jvm = SparkContext._jvm
        assert jvm is not None
        state = jvm.org.apache.spark.sql.execution.streaming.state.RocksDBMemoryManager
        ours = jvm.org.apache.spark.sql.streamapp
        if not seen and done(2):
            assert state.getNumRocksDBInstances(False) == 0, "stores have memory of their own, without a bound"
            assert state.getNumRocksDBInstances(True) > 0
            assert state.getMemBytesUsed() < 64 << 20
            seen.append((ours.SourcePosition.count(), ours.TaskTransaction.producers()))
            ours.SourcePosition.tidyAt(int(time.time() * 1000) + LATER_MS)
            seen.append((ours.SourcePosition.count(), ours.TaskTransaction.producers()))
            app.send("in", (None, "x"))
        elif len(seen) == 2 and done(3):
            seen.append((ours.SourcePosition.count(), ours.TaskTransaction.producers()))
            os.kill(os.getpid(), signal.SIGTERM)

    app.run_until_told(watch)
    # Two source partitions without state, and two of the store. Later one record comes, which one task without state
    # sends on, and one task counts with both partitions of the store.
    assert seen == [(2, 4), (0, 0), (1, 2)]
    assert app.latest("out") == {"x": {"n": 3}}
    assert len(app.received("all")) == 3
