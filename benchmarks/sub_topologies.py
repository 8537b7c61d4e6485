# SPDX-License-Identifier: Apache-2.0
"""The cost of epochs in an app of many sub-topologies: from the start of an epoch of one to the start of its next, and
the metadata topic's part of that. Only StreamApp is measured."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from confluent_kafka import Producer

from benchmarks.kafka_edge import Kafka, paced
from benchmarks.ours_main import EPOCHS
from benchmarks.systems import Job, Running, run_manifest

NUMBERS = (1, 5, 10)
PARTITIONS = 4
COLUMNS = ("between two epochs", "range written", "end written", "the rest")
"""The names of the figures, in the order of Epochs."""

_HEAD = """\
apiVersion: streamapp.dev/v1alpha1
kind: StreamApp
metadata: {{name: {app}}}
spec:
  maxParallelism: 4
  topology:
  - {{name: orders, stream: {{topic: {input}, value: {{format: json, schema: "{schema}"}}}}}}
"""
_PART = """\
  - {{name: by-{n}, from: orders, groupBy: [k{n}], aggregate: {{count: "count(*)"}}}}
  - {{name: to-{n}, from: by-{n}, to: {{topic: {output}-{n}}}}}
"""


@dataclass(frozen=True)
class Load:
    """Rate and duration."""

    per_second: int = 1000
    warm_up_seconds: int = 60
    seconds: int = 60
    keys: int = 1000


@dataclass(frozen=True)
class Epochs:
    """Each figure is a median and a 99th percentile in milliseconds, of readings of all sub-topologies once a
    second."""

    between: tuple[float, float]
    """The mean of the epochs within a second."""
    range_written: tuple[float, float]
    end_written: tuple[float, float]
    rest: tuple[float, float]
    processors: float
    """Processors in use by the app's processes, on average."""
    epochs: int
    """The number of epochs of all sub-topologies together, within that time."""
    cpu_ms: float
    """The processor time of the app's processes, for each epoch."""


def measure(kafka: Kafka, number: int, load: Load, scratch: Path) -> Epochs:
    """Measures an app of so many sub-topologies that read the same records, each by another key."""
    job = Job.of(kafka.bootstrap, "parts", str(number), scratch)
    kafka.create(job.input, PARTITIONS)
    for n in range(number):
        kafka.create(f"{job.output}-{n}", PARTITIONS)
    schema = ", ".join(f"k{n} bigint" for n in range(number))
    text = _HEAD.format(app=job.app, input=job.input, schema=schema)
    text += "".join(_PART.format(n=n, output=job.output) for n in range(number))
    running = run_manifest(job, text, **{EPOCHS: "1"})
    try:
        _send(kafka, job.input, number, load, running, until=lambda: _parts(running) == number)
        _send(kafka, job.input, number, load, running, seconds=load.warm_up_seconds)
        before, used = len(running.lines), running.cpu_seconds()
        with running.profiled():
            _send(kafka, job.input, number, load, running, seconds=load.seconds)
        used = running.cpu_seconds() - used
        epochs = _epochs(running.lines[before:])
    finally:
        running.stop()
    kafka.forget(job.app)
    shutil.rmtree(job.dir, ignore_errors=True)
    return _summary(epochs, used, load.seconds)


def row(number: int, found: Epochs) -> tuple[str, ...]:
    """A row of the report's table."""
    pairs = (found.between, found.range_written, found.end_written, found.rest)
    name = "1 sub-topology" if number == 1 else f"{number} sub-topologies"
    used = (f"{found.processors:.2f}", f"{found.cpu_ms:.0f}")
    return (name, *(f"{p50:.0f} / {p99:.0f}" for p50, p99 in pairs), *used)


def _send(
    kafka: Kafka,
    topic: str,
    number: int,
    load: Load,
    running: Running,
    seconds: float = 120.0,
    until: Callable[[], bool] = lambda: False,
) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap, "linger.ms": 0, "log_level": 2})
    for index in paced(load.per_second, seconds):
        key = index * 7919 % load.keys
        record = {f"k{n}": (key + n) % load.keys for n in range(number)}
        producer.produce(topic, json.dumps(record), partition=index % PARTITIONS)
        producer.poll(0)
        if index % load.per_second == 0:
            running.check()
            if until():
                break
    producer.flush(30)


def _parts(running: Running) -> int:
    return len({epoch["part"] for epoch in _epochs(running.lines)})


def _epochs(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line.removeprefix("epoch ")) for line in lines if line.startswith("epoch ")]


def _summary(epochs: list[dict[str, Any]], used: float, seconds: int) -> Epochs:
    seen: dict[str, list[tuple[int, float]]] = {}
    for epoch in epochs:
        started = datetime.fromisoformat(epoch["started"]).timestamp() * 1000
        seen.setdefault(epoch["part"], []).append((epoch["epoch"], started))
    between = [
        (start - earlier) / (number - before)
        for looks in seen.values()
        for (before, earlier), (number, start) in pairwise(looks)
    ]
    written = [epoch.get("walCommit", 0) for epoch in epochs]
    ended = [epoch.get("commitOffsets", 0) for epoch in epochs]
    rest = [epoch["triggerExecution"] - a - b for epoch, a, b in zip(epochs, written, ended, strict=True)]
    ended_meanwhile = sum(looks[-1][0] - looks[0][0] for looks in seen.values())
    figures = (_both(between), _both(written), _both(ended), _both(rest))
    return Epochs(*figures, used / seconds, ended_meanwhile, 1000 * used / max(1, ended_meanwhile))


def _both(millis: list[float]) -> tuple[float, float]:
    p50, p99 = np.percentile(millis, [50, 99])
    return float(p50), float(p99)
