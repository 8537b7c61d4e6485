# SPDX-License-Identifier: Apache-2.0
"""Latency: from producing a word to reading the committed count that includes it.

The n-th time a word is sent is answered by the first record of that word whose count is n or more. Sender and reader
are one process with one clock.

The word is the record's value, or its key: then the topic is partitioned by what is counted.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections import deque
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.kafka_edge import Kafka, paced
from benchmarks.systems import KAFKA_STREAMS, OURS, SYSTEMS, Job, Running, Starter, kafka_streams, run_manifest

PARTITIONS = 4
_BY_KEY = """\
apiVersion: streamapp.dev/v1alpha1
kind: StreamApp
metadata: {{name: {app}}}
spec:
  topology:
  - {{name: words, stream: {{topic: {input}, value: text}}}}
  - {{name: counts, from: words, groupBy: [key], aggregate: {{count: "count(*)"}}, store: word-counts}}
  - {{name: out, from: counts, to: {{topic: {output}, value: long}}}}
"""


@dataclass(frozen=True)
class Load:
    """Rate and duration."""

    per_second: int = 1000
    warm_up_seconds: int = 180
    seconds: int = 60
    words: int = 10_000
    by_key: bool = False
    seed: int = 1


@dataclass(frozen=True)
class Latency:
    p50_ms: float
    p99_ms: float
    max_ms: float
    records: int
    cpu_seconds: float
    """Processor time of the system's own processes for each second of the load."""


def starters(load: Load) -> dict[str, Starter]:
    """The systems that are compared."""
    if not load.by_key:
        return {name: SYSTEMS[name] for name in (OURS, KAFKA_STREAMS)}
    return {
        OURS: lambda job: run_manifest(job, _BY_KEY.format(app=job.app, input=job.input, output=job.output)),
        KAFKA_STREAMS: partial(kafka_streams, program="CountByKey"),
    }


def measure(kafka: Kafka, name: str, start: Starter, load: Load, run: str, scratch: Path) -> Latency:
    """Measures one system, one round."""
    job = Job.of(kafka.bootstrap, name, run, scratch)
    kafka.create(job.input, PARTITIONS)
    kafka.create(job.output, PARTITIONS)
    reader = _Reader(kafka, job.output)
    running = start(job)
    try:
        _Sender(kafka, job.input, reader, load).run(running)
        reader.await_all(60, running)
        used = running.cpu_seconds() - reader.cpu_before
    finally:
        running.stop()
        reader.close()
    kafka.forget(job.app)
    shutil.rmtree(job.dir, ignore_errors=True)
    millis = np.array(reader.latencies) * 1000
    p50, p99 = np.percentile(millis, [50, 99])
    return Latency(float(p50), float(p99), float(millis.max()), len(millis), used / load.seconds)


class _Reader:
    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "group.id": f"watch-{topic}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "log_level": 2,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
        self._waiting: dict[bytes, deque[float]] = {}
        self._seen: dict[bytes, int] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self.first = threading.Event()
        self.counted_from = float("inf")
        self.cpu_before = 0.0
        self.outstanding = 0
        self.latencies: list[float] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def sent(self, word: bytes, now: float) -> None:
        with self._lock:
            self._waiting.setdefault(word, deque()).append(now)
            self.outstanding += 1

    def _read(self) -> None:
        while not self._stopping.is_set():
            messages = self._consumer.consume(500, 0.005)
            now = time.monotonic()
            with self._lock:
                for message in messages:
                    if message.error():
                        continue
                    self._answer(message.key() or b"", int(message.value() or b""), now)
            if messages:
                self.first.set()

    def _answer(self, word: bytes, count: int, now: float) -> None:
        waiting = self._waiting[word]
        for _ in range(count - self._seen.get(word, 0)):
            sent_at = waiting.popleft()
            self.outstanding -= 1
            if sent_at >= self.counted_from:
                self.latencies.append(now - sent_at)
        self._seen[word] = count

    def await_all(self, seconds: float, running: Running) -> None:
        deadline = time.monotonic() + seconds
        while self.outstanding:
            running.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.outstanding} words were never counted")
            time.sleep(0.05)

    def close(self) -> None:
        self._stopping.set()
        self._thread.join(5)
        self._consumer.close()


class _Sender:
    def __init__(self, kafka: Kafka, topic: str, reader: _Reader, load: Load) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": kafka.bootstrap,
                "linger.ms": 0,
                "acks": "all",
                "log_level": 2,
                "partitioner": "murmur2_random",
            }
        )
        self._topic = topic
        self._reader = reader
        self._load = load
        self._words = iter(np.random.default_rng(load.seed).integers(0, load.words, 10_000_000).tolist())
        self._number = 0

    def run(self, running: Running) -> None:
        """Sends words from the start on, at full rate once the first count has come back."""
        while not self._reader.first.wait(0.1):
            running.check()
            self._send()
        self._send_for(self._load.warm_up_seconds)
        self._reader.cpu_before = running.cpu_seconds()
        self._reader.counted_from = time.monotonic()
        self._send_for(self._load.seconds)
        self._producer.flush(30)

    def _send_for(self, seconds: float) -> None:
        for _ in paced(self._load.per_second, seconds):
            self._send()

    def _send(self) -> None:
        word = b"w%d" % next(self._words)
        self._reader.sent(word, time.monotonic())
        if self._load.by_key:
            self._producer.produce(self._topic, b"", word)
        else:
            self._producer.produce(self._topic, word, partition=self._number % PARTITIONS)
        self._producer.poll(0)
        self._number += 1
