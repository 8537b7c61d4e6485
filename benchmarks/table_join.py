# SPDX-License-Identifier: Apache-2.0
"""Throughput of a stream that looks up a table: a backlog of records, each with the row of its key.

The table is read, and a few batches are let through, before the clock runs: from the moment at which the backlog can be
read until the last result is committed. Each record must have its result, and each key its row.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.kafka_edge import Gate, Kafka, Watch
from benchmarks.systems import KAFKA_STREAMS, OURS, STATE_PARTITIONS, Job, Running, Starter, kafka_streams, run_manifest

PARTITIONS = 4
KEYS = 100_000

MANIFEST = """\
apiVersion: streamapp.dev/v1alpha1
kind: StreamApp
metadata: {{name: {app}}}
spec:
  maxParallelism: {partitions}
  topology:
  - {{name: rows, table: {{topic: {input}-table, value: text}}}}
  - {{name: records, stream: {{topic: {input}, value: text}}}}
  - name: joined
    join: {{with: rows, type: left, select: {{value: "concat(records.value, ',', rows.value)"}}}}
  - {{name: out, to: {{topic: {output}, value: text}}}}
"""


@dataclass(frozen=True)
class Load:
    """How much."""

    records: int = 1_500_000
    warm_ups: int = 5
    warm_up_records: int = 50_000
    seed: int = 1


@dataclass(frozen=True)
class Joined:
    seconds: float
    records_per_second: float
    cpu_seconds: float
    """Processor time of the system's own processes meanwhile."""


def ours(job: Job) -> Running:
    return run_manifest(
        job, MANIFEST.format(app=job.app, input=job.input, output=job.output, partitions=STATE_PARTITIONS)
    )


SYSTEMS: dict[str, Starter] = {OURS: ours, KAFKA_STREAMS: partial(kafka_streams, program="TableJoin")}


def records(count: int, seed: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys that are drawn evenly, with a value each."""
    for number in np.random.default_rng(seed).integers(0, KEYS, count).tolist():
        yield b"k%d" % number, b"value of %d" % number


def measure(kafka: Kafka, name: str, start: Starter, load: Load, run: str, scratch: Path) -> Joined:
    """One system, one round.

    Raises:
        AssertionError: if a record has no result, or a wrong one.
    """
    job = Job.of(kafka.bootstrap, name, run, scratch)
    for topic in (job.input, f"{job.input}-table", job.output):
        kafka.create(topic, PARTITIONS)
    table = Gate(kafka, f"{job.input}-table", ((b"k%d" % number, b"row %d" % number) for number in range(KEYS)))
    table.open()
    sizes = [load.warm_up_records] * load.warm_ups + [load.records]
    gates = [Gate(kafka, job.input, records(size, load.seed + i)) for i, size in enumerate(sizes)]
    running, watch = start(job), Watch(kafka, job.output, PARTITIONS, by_key=False)
    try:
        for index, gate in enumerate(gates[:-1]):
            gate.open()
            watch.await_total((index + 1) * load.warm_up_records, 120, running.check, quiet=0.3)
        with running.profiled():
            used = running.cpu_seconds()
            opened = gates[-1].open()
            done = watch.await_total(sum(sizes), 600, running.check)
            used = running.cpu_seconds() - used
    finally:
        running.stop()
        watch.close()
    wrong = [
        message.value()
        for message in kafka.committed(job.output)
        if message.value() != b"value of %s,row %s" % ((message.key() or b"")[1:], (message.key() or b"")[1:])
    ]
    assert not wrong, f"{name}: {len(wrong)} results are wrong, e.g. {wrong[0]!r}"
    kafka.forget(job.app)
    shutil.rmtree(job.dir, ignore_errors=True)
    return Joined(done - opened, load.records / (done - opened), used)
