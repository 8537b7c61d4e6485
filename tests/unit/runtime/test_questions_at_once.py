# SPDX-License-Identifier: Apache-2.0
"""Questions about stores take turns: they share the executors with the app's own work."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from streamapp.compile import compile_manifest
from streamapp.http.server import Busy
from streamapp.manifest import parse_manifest
from streamapp.question import Question
from streamapp.spark import stores
from streamapp.spark.stores import MOST_AT_ONCE, Stores

PLAN = compile_manifest(
    parse_manifest("""
apiVersion: streamapp.dev/v1alpha1
kind: StreamApp
metadata: {name: words}
spec:
  kafka: {bootstrapServers: "kafka:9092"}
  topology:
  - {name: lines, stream: {topic: lines, value: text}}
  - {name: counts, groupBy: [value], aggregate: {count: count(*)}}
  - {name: out, to: {topic: out}}
""")
)


class Slow(Stores):
    """A store that reads nothing, and takes its time for it."""

    def __init__(self) -> None:
        super().__init__(cast(SparkSession, None), PLAN)
        self.begun = threading.Semaphore(0)
        self.goes_on = threading.Event()

    def _rows(self, table: Any, question: Question) -> list[Any]:
        self.begun.release()
        assert self.goes_on.wait(60)
        return []


def test_the_fifth_is_told_to_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "WAIT_SECONDS", 0.1)
    slow = Slow()
    with ThreadPoolExecutor(MOST_AT_ONCE) as askers:
        try:
            answers = [askers.submit(slow.answer, Question("counts")) for _ in range(MOST_AT_ONCE)]
            for _ in answers:
                assert slow.begun.acquire(timeout=20)
            with pytest.raises(Busy, match=f"{MOST_AT_ONCE} questions are being answered; ask again"):
                slow.answer(Question("counts"))
        finally:
            slow.goes_on.set()
        assert all(answer.result()["complete"] for answer in answers)
    assert slow.answer(Question("counts"))["rows"] == []


def test_or_waits_for_its_turn() -> None:
    slow = Slow()
    with ThreadPoolExecutor(2 * MOST_AT_ONCE) as askers:
        try:
            answers = [askers.submit(slow.answer, Question("counts")) for _ in range(2 * MOST_AT_ONCE)]
            for _ in range(MOST_AT_ONCE):
                assert slow.begun.acquire(timeout=20)
            assert not slow.begun.acquire(timeout=0.2)
        finally:
            slow.goes_on.set()
        assert all(answer.result()["complete"] for answer in answers)
