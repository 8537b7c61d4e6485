# SPDX-License-Identifier: Apache-2.0
"""Memory: the largest resident size of a system's JVM while it counts many different words, one line each."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kafka_edge import Gate, Kafka, Watch
from benchmarks.systems import Job, Starter

PARTITIONS = 4


@dataclass(frozen=True)
class Memory:
    peak_mb: float
    seconds: float
    """The time from the moment when the input is there to the last count, start included."""


def measure(kafka: Kafka, name: str, start: Starter, keys: int, run: str, scratch: Path) -> Memory:
    """Measures one system."""
    job = Job.of(kafka.bootstrap, name, run, scratch)
    kafka.create(job.input, PARTITIONS)
    kafka.create(job.output, PARTITIONS)
    opened = Gate(kafka, job.input, (b"w%d" % number for number in range(keys))).open()
    watch, running = Watch(kafka, job.output, PARTITIONS, by_key=False), start(job)
    try:
        done = watch.await_total(keys, 1800, running.check, quiet=3.0)
    finally:
        running.stop()
        watch.close()
    kafka.forget(job.app)
    shutil.rmtree(job.dir, ignore_errors=True)
    return Memory(running.peak_rss / 1e6, done - opened)
