# SPDX-License-Identifier: Apache-2.0
"""Restore: many small keys are counted, the app is stopped, its local state deleted, and it is started again.

The time is that from the first store partition's restore to the last one's end, as the system reports it; and, as a
user sees it, from the start of the process to the committed count of a word sent meanwhile.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.kafka_edge import Gate, Kafka, Watch
from benchmarks.systems import Job, Starter

PARTITIONS = 4


@dataclass(frozen=True)
class Restored:
    seconds: float
    records: int
    """Changelog records or offsets read, as the system counts them."""
    start_to_output_seconds: float


def measure(kafka: Kafka, name: str, start: Starter, keys: int, run: str, scratch: Path) -> Restored:
    """Measures one system, one round."""
    job = Job.of(kafka.bootstrap, name, run, scratch)
    kafka.create(job.input, PARTITIONS)
    kafka.create(job.output, PARTITIONS)
    Gate(kafka, job.input, (b"w%d" % number for number in range(keys))).open()
    watch, running = Watch(kafka, job.output, PARTITIONS), start(job)
    try:
        watch.await_total(keys, 600, running.check)
        running.stop()
        shutil.rmtree(job.dir)
        Gate(kafka, job.input, [b"w0"]).open()
        started = time.monotonic()
        running = start(job)
        with running.profiled():
            seconds, records = running.await_line("restored ", 300).split()[1:]
        done = watch.await_total(keys + 1, 300, running.check, quiet=0.1)
        if watch.counts[b"w0"] != 2:
            raise AssertionError(f"{name}: after the restore w0 has {watch.counts[b'w0']} instead of 2")
    finally:
        running.stop()
        watch.close()
    kafka.forget(job.app)
    shutil.rmtree(job.dir, ignore_errors=True)
    return Restored(float(seconds), int(records), done - started)
