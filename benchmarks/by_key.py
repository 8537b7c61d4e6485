# SPDX-License-Identifier: Apache-2.0
"""Throughput of operations with state by key, over a backlog: joins with tables, and sessions.

If there is a table, it is read first. Then a few batches are processed before the clock runs: from the moment when the
backlog can be read until the last result is committed. Then each result is checked.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from benchmarks.kafka_edge import Gate, Kafka, Record, Watch
from benchmarks.systems import KAFKA_STREAMS, OURS, STATE_PARTITIONS, Job, Running, Starter, kafka_streams, run_manifest

PARTITIONS = 4
KEYS = 100_000
_BEGIN_MS = 1_700_000_000_000
"""The event time of the first record, where records have one each millisecond."""

_HEAD = """\
apiVersion: streamapp.dev/v1alpha1
kind: StreamApp
metadata: {{name: {app}}}
spec:
  maxParallelism: {partitions}
  topology:
"""


@dataclass(frozen=True)
class Load:
    """Sizes of the input."""

    records: int
    warm_up_records: int = 50_000
    warm_ups: int = 5
    seed: int = 1

    @property
    def sizes(self) -> list[int]:
        """The sizes of the batches: the last one is measured."""
        return [self.warm_up_records] * self.warm_ups + [self.records]


class Workload(ABC):
    """One kind of operation, on keys that are drawn evenly."""

    program: ClassVar[str]
    """The program of Kafka Streams (kafka-streams/PROGRAM.java)."""
    topology: ClassVar[str]
    counted: ClassVar[bool] = False
    """Whether a result is a number that replaces the one before it of its key, and the numbers sum up to the expected
    total; else each record has one result."""

    def __init__(self, load: Load) -> None:
        self.drawn = np.random.default_rng(load.seed).integers(0, KEYS, sum(load.sizes))

    def rows(self) -> Iterable[Record]:
        """The records before the batches: of a table, or of the other stream."""
        return ()

    @abstractmethod
    def record(self, number: int, key: int) -> Record:
        """The record of that number."""

    def total(self, records: int) -> int:
        """The total of the results after so many records."""
        return records

    @abstractmethod
    def wrong(self, results: list[tuple[bytes, bytes | None]]) -> str | None:
        """The mistake in the results; None if there is none."""

    @property
    def systems(self) -> dict[str, Starter]:
        """The systems that can do it."""
        return {OURS: self._ours, KAFKA_STREAMS: partial(kafka_streams, program=self.program)}

    def _ours(self, job: Job) -> Running:
        text = _HEAD + self.topology
        return run_manifest(
            job, text.format(app=job.app, input=job.input, output=job.output, partitions=STATE_PARTITIONS)
        )


class StreamTable(Workload):
    """Each record with the row of its key."""

    program = "TableJoin"
    topology = """\
  - {{name: rows, table: {{topic: {input}-table, value: text}}}}
  - {{name: records, stream: {{topic: {input}, value: text}}}}
  - name: joined
    join: {{with: rows, type: left, select: {{value: "concat(records.value, ',', rows.value)"}}}}
  - {{name: out, to: {{topic: {output}, value: text}}}}
"""

    def rows(self) -> Iterable[Record]:
        return ((b"k%d" % key, b"row %d" % key) for key in range(KEYS))

    def record(self, number: int, key: int) -> Record:
        return b"k%d" % key, b"value of %d" % key

    def wrong(self, results: list[tuple[bytes, bytes | None]]) -> str | None:
        return _first(value for key, value in results if value != b"value of %s,row %s" % (key[1:], key[1:]))


class StreamStream(StreamTable):
    """Each record with the one of another stream that has its key and was there before."""

    program = "StreamJoin"
    topology = """\
  - {{name: others, stream: {{topic: {input}-table, value: text}}}}
  - {{name: records, stream: {{topic: {input}, value: text}}}}
  - name: joined
    join:
      with: others
      within: 1 hour
      grace: 1 minute
      select: {{value: "concat(records.value, ',', others.value)"}}
  - {{name: out, to: {{topic: {output}, value: text}}}}
"""

    def rows(self) -> Iterable[Record]:
        return ((b"k%d" % key, b"row %d" % key, _BEGIN_MS) for key in range(KEYS))

    def record(self, number: int, key: int) -> Record:
        return b"k%d" % key, b"value of %d" % key, _BEGIN_MS + number


class TableTable(Workload):
    """Rows of two tables with equal keys: those of one table are updated again and again."""

    program = "TableTableJoin"
    topology = """\
  - {{name: rows, table: {{topic: {input}-table, value: long}}}}
  - {{name: records, table: {{topic: {input}, value: long}}}}
  - name: joined
    join: {{with: rows, select: {{value: records.value + rows.value}}}}
  - {{name: out, to: {{topic: {output}, value: long}}}}
"""
    counted = True

    def rows(self) -> Iterable[Record]:
        return ((b"k%d" % key, b"%d" % key) for key in range(KEYS))

    def record(self, number: int, key: int) -> Record:
        return b"k%d" % key, b"%d" % number

    def total(self, records: int) -> int:
        last = self._last(records)
        return sum(last.values()) + sum(last)

    def _last(self, records: int) -> dict[int, int]:
        return dict(zip(self.drawn[:records].tolist(), range(records), strict=True))

    def wrong(self, results: list[tuple[bytes, bytes | None]]) -> str | None:
        last = self._last(len(self.drawn))
        wanted = {b"k%d" % key: b"%d" % (number + key) for key, number in last.items()}
        found = dict(results)
        return _first(f"{key!r}: {found.get(key)!r}" for key, value in wanted.items() if found.get(key) != value)


class ForeignKey(Workload):
    """Each row of a table, all of them new, with the row of another table that it names."""

    program = "ForeignKeyJoin"
    topology = """\
  - {{name: rows, table: {{topic: {input}-table, value: long}}}}
  - {{name: records, table: {{topic: {input}, value: text}}}}
  - {{name: joined, join: {{with: rows, by: [value], select: {{value: rows.value}}}}}}
  - {{name: out, to: {{topic: {output}, value: long}}}}
"""
    # Kafka Streams gives some results twice.
    counted = True

    def rows(self) -> Iterable[Record]:
        return ((b"k%d" % key, b"%d" % (key + 1)) for key in range(KEYS))

    def record(self, number: int, key: int) -> Record:
        return b"r%d" % number, b"k%d" % key

    def total(self, records: int) -> int:
        return int(self.drawn[:records].sum()) + records

    def wrong(self, results: list[tuple[bytes, bytes | None]]) -> str | None:
        found = dict(results)
        wanted = ((b"r%d" % number, b"%d" % (key + 1)) for number, key in enumerate(self.drawn.tolist()))
        return _first(f"{key!r}: {found.get(key)!r}" for key, value in wanted if found.get(key) != value)


class Sessions(Workload):
    """Counts of records that follow each other: a record a millisecond, and sessions with gaps of up to a minute."""

    program = "Sessions"
    topology = """\
  - {{name: records, stream: {{topic: {input}, value: text}}}}
  - name: sessions
    groupBy: [key]
    window: {{session: 1 minute}}
    grace: 1 minute
    aggregate: {{count: count(*)}}
  - {{name: out, to: {{topic: {output}, value: long}}}}
"""
    counted = True

    def record(self, number: int, key: int) -> Record:
        return b"k%d" % key, b"x", _BEGIN_MS + number

    def wrong(self, results: list[tuple[bytes, bytes | None]]) -> str | None:
        # A session's key has its group, and the time at which it begins.
        counts = sum(int(value) for value in dict(results).values() if value is not None)
        return None if counts == len(self.drawn) else f"sessions have {counts} of {len(self.drawn)} records"


WORKLOADS: dict[str, type[Workload]] = {
    "table-join": StreamTable,
    "stream-join": StreamStream,
    "table-table": TableTable,
    "foreign-key": ForeignKey,
    "sessions": Sessions,
}


RECORDS = {
    "table-join": 1_500_000,
    "stream-join": 500_000,
    "table-table": 1_000_000,
    "foreign-key": 500_000,
    "sessions": 1_000_000,
}
"""The numbers of measured records: some ten seconds of work for each system."""


@dataclass(frozen=True)
class Measured:
    seconds: float
    records_per_second: float
    cpu_seconds: float
    """Processor time of the system's own processes meanwhile."""


def measure(
    kafka: Kafka, name: str, start: Starter, workload: Workload, load: Load, run: str, scratch: Path
) -> Measured:
    """Measures one system, one round.

    Raises:
        AssertionError: if a result is missing, or wrong.
    """
    job = Job.of(kafka.bootstrap, name, run, scratch)
    for topic in (job.input, f"{job.input}-table", job.output):
        kafka.create(topic, PARTITIONS)
    Gate(kafka, f"{job.input}-table", workload.rows()).open()
    gates, totals, at = [], [], 0
    for size in load.sizes:
        keys = workload.drawn[at : at + size].tolist()
        gates.append(Gate(kafka, job.input, map(workload.record, range(at, at + size), keys)))
        at += size
        totals.append(workload.total(at))
    running, watch = start(job), Watch(kafka, job.output, PARTITIONS, by_key=workload.counted)
    try:
        for gate, total in zip(gates[:-1], totals, strict=False):
            gate.open()
            watch.await_total(total, 120, running.check, quiet=0.3)
        with running.profiled():
            used = running.cpu_seconds()
            opened = gates[-1].open()
            done = watch.await_total(totals[-1], 600, running.check)
            used = running.cpu_seconds() - used
    finally:
        running.stop()
        watch.close()
    results = [(message.key() or b"", message.value()) for message in kafka.committed(job.output)]
    wrong = workload.wrong(results)
    assert wrong is None, f"{name}: {wrong}"
    kafka.forget(job.app)
    shutil.rmtree(job.dir, ignore_errors=True)
    return Measured(done - opened, load.records / (done - opened), used)


def _first(wrong: Iterator[object]) -> str | None:
    return next((f"a result is wrong: {one}" for one in wrong), None)
