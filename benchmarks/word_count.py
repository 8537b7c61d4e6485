# SPDX-License-Identifier: Apache-2.0
"""Throughput: a word count over a backlog.

Every system gets topics of its own. A few batches of lines are processed one after the other until their counts are
there: then starting, compiling and filling pools are over. Only then does the backlog become readable, all at once, and
the clock runs from that moment until the last count is committed. The final counts must be exact.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.kafka_edge import Gate, Kafka, Watch, lines
from benchmarks.systems import STOCK_SPARK, Job, Starter

PER_LINE = 5
WORDS = 100_000
SOURCE_PARTITIONS = 4
OUTPUT_PARTITIONS = 4


@dataclass(frozen=True)
class Load:
    """Sizes of the input."""

    lines: int = 1_200_000
    warm_ups: int = 5
    warm_up_lines: int = 20_000
    seed: int = 1


@dataclass(frozen=True)
class Throughput:
    seconds: float
    lines_per_second: float
    cpu_seconds: float
    """Processor time of the system's own processes meanwhile (the broker's not counted)."""
    records_out: int
    """Output records over the whole run."""
    peak_mb: float


def measure(kafka: Kafka, name: str, start: Starter, load: Load, run: str, scratch: Path) -> Throughput:
    """Measures one system, one round.

    Raises:
        AssertionError: if a count is wrong.
    """
    job = Job.of(kafka.bootstrap, name, run, scratch)
    kafka.create(job.input, SOURCE_PARTITIONS)
    kafka.create(job.output, OUTPUT_PARTITIONS)
    gates, expected = [], np.zeros(WORDS, dtype=np.int64)
    for index in range(load.warm_ups + 1):
        size = load.warm_up_lines if index < load.warm_ups else load.lines
        values, drawn = lines(size, PER_LINE, WORDS, load.seed + index)
        gates.append(Gate(kafka, job.input, values))
        expected += drawn
    running, watch = start(job), Watch(kafka, job.output, OUTPUT_PARTITIONS)
    try:
        for index, gate in enumerate(gates[:-1]):
            gate.open()
            watch.await_total((index + 1) * load.warm_up_lines * PER_LINE, 120, running.check, quiet=0.3)
        used = running.cpu_seconds()
        with running.profiled():
            opened = gates[-1].open()
            done = watch.await_total(int(expected.sum()), 600, running.check)
        used = running.cpu_seconds() - used
        watch.verify(expected, name)
        if watch.backwards and name != STOCK_SPARK:
            raise AssertionError(f"{name}: {watch.backwards} counts went backwards in the committed output")
    finally:
        running.stop()
        watch.close()
    kafka.forget(job.app)
    shutil.rmtree(job.dir, ignore_errors=True)
    seconds = done - opened
    return Throughput(seconds, load.lines / seconds, used, watch.records, running.peak_rss / 1e6)
