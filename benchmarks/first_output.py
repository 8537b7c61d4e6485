# SPDX-License-Identifier: Apache-2.0
"""First output: from the start of a system's process to the committed counts of records that lie on the topic
already."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from benchmarks.kafka_edge import Gate, Kafka, Watch
from benchmarks.systems import Job, Starter

PARTITIONS = 4
WORDS = 1_000


def measure(kafka: Kafka, name: str, start: Starter, run: str, scratch: Path) -> float:
    """Measures one system, one round; in seconds."""
    job = Job.of(kafka.bootstrap, name, run, scratch)
    kafka.create(job.input, PARTITIONS)
    kafka.create(job.output, PARTITIONS)
    Gate(kafka, job.input, (b"w%d" % number for number in range(WORDS))).open()
    watch = Watch(kafka, job.output, PARTITIONS)
    started = time.monotonic()
    running = start(job)
    try:
        done = watch.await_total(WORDS, 120, running.check, quiet=0.1)
    finally:
        running.stop()
        watch.close()
    kafka.forget(job.app)
    shutil.rmtree(job.dir, ignore_errors=True)
    return done - started
