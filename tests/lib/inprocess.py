# SPDX-License-Identifier: Apache-2.0
"""Runs a manifest to the end of its input in this process, on a real broker: records in, records out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from confluent_kafka import Producer
from pyspark import SparkContext

from lib.broker import in_order
from lib.verify import committed
from streamapp.compile import compile_manifest
from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.topics import ensure_topics, topics_of
from streamapp.manifest import parse_manifest
from streamapp.spark.app import Options, place_here, run_app


@dataclass(frozen=True)
class Record:
    """A record as a test reads it: JSON values are parsed where they are JSON."""

    key: str | None
    value: Any
    timestamp: int
    partition: int
    headers: tuple[tuple[str, str], ...] = ()


class App:
    """An application under a name of its own; the topics in its manifest are written as `$T-name`."""

    def __init__(self, kafka: KafkaConfig, folder: Path, topology: str, spec: str = "") -> None:
        self.kafka = kafka
        self.prefix = f"t{uuid4().hex[:8]}"
        self._folder = folder
        self.statuses: list[dict[str, Any]] = []
        self._producers: dict[int, Producer] = {}
        self.change(topology, spec)

    def change(self, topology: str, spec: str = "") -> None:
        """Makes it another version of the same application."""
        # The topology first: it alone is indented as it is given.
        text = (
            "apiVersion: streamapp.dev/v1alpha1\nkind: StreamApp\n"
            f"metadata: {{name: {self.prefix}}}\nspec:\n  maxParallelism: 2\n{spec}\n  topology:\n{topology}"
        )
        self.plan = compile_manifest(parse_manifest(text.replace("$T", self.prefix)))

    def topic(self, name: str) -> str:
        return f"{self.prefix}-{name}"

    def create(self, *names: str, partitions: int = 1) -> None:
        Admin(self.kafka).create([TopicSpec(self.topic(name), "test", partitions) for name in names])

    def send(self, topic: str, *records: tuple[Any, Any] | tuple[Any, Any, int], partition: int = 0) -> None:
        """Sends (key, value[, timestamp in ms]); dicts become JSON, bytes and None stay as they are."""
        # To make a producer takes longer than to send. One that has known a topic for long does not know its new
        # partitions.
        if partition not in self._producers:
            self._producers[partition] = in_order(self.kafka)
        producer = self._producers[partition]
        for key, value, *timestamp in records:
            producer.produce(
                self.topic(topic),
                key=_bytes(key),
                value=_bytes(value),
                partition=partition,
                timestamp=timestamp[0] if timestamp else 0,
            )
        assert producer.flush(30) == 0

    def run(
        self,
        settings: Mapping[str, str] | None = None,
        epoch_records: int | None = None,
        *,
        replicas: int | None = None,
        on_ready: Callable[[str], None] | None = None,
    ) -> None:
        """Runs to the end of the input, as `streamapp run --until-caught-up` does, with further settings of Spark's.

        `epoch_records`: no epoch takes more from a source (from each of its partitions one at least).
        `replicas`: the number of executor processes; None: the tasks run in this process.
        `on_ready`: is called when the app begins to run.
        """
        ensure_topics(Admin(self.kafka), topics_of(self.plan), create_all=True)
        state_dir = self._folder / self.prefix
        place = replace(place_here(self.plan, state_dir, replicas), settings=settings or {})
        options = Options(state_dir=state_dir, until_caught_up=True, place=place)

        def ready(url: str) -> None:
            if on_ready is not None:
                on_ready(url)
            if epoch_records is not None:
                jvm: Any = SparkContext._jvm
                jvm.org.apache.spark.sql.streamapp.EpochPacer.atMost(epoch_records)

        before = len(self.statuses)  # of earlier runs
        run_app(self.plan, self.kafka, options, ready, lambda status: self.statuses.append(dict(status)))
        restarts = {status["error"] for status in self.statuses[before:] if status["phase"] == "Restarting"}
        assert not restarts, f"an attempt has failed, though the next one has done it: {restarts}"

    def run_until_told(self, on_progress: Callable[[Mapping[str, Any]], None]) -> None:
        """Runs until a SIGTERM, which `on_progress` can send to this process."""
        ensure_topics(Admin(self.kafka), topics_of(self.plan), create_all=True)
        run_app(self.plan, self.kafka, Options(state_dir=self._folder / self.prefix), on_progress=on_progress)

    def received(self, topic: str) -> list[Record]:
        """All committed records of a topic, partition by partition."""
        return [_record(message) for message in committed(self.kafka, self.topic(topic))]

    def raw(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """The same as (key, value) in bytes."""
        return [(message.key(), message.value()) for message in committed(self.kafka, self.topic(topic))]

    def latest(self, topic: str) -> dict[str | None, Any]:
        """The last value of each key; None if it is deleted."""
        return {record.key: record.value for record in self.received(topic)}

    def table(self, topic: str) -> dict[Any, Any]:
        """The same without rows that are deleted."""
        return {key: value for key, value in self.latest(topic).items() if value is not None}


def _bytes(content: Any) -> bytes | None:
    if content is None or isinstance(content, bytes):
        return content
    return content.encode() if isinstance(content, str) else json.dumps(content).encode()


def _record(message: Any) -> Record:
    value = message.value()
    try:
        parsed: Any = None if value is None else json.loads(value)
    except ValueError:
        parsed = value.decode(errors="replace")
    headers = tuple((name, content.decode()) for name, content in message.headers() or [])
    key = message.key()
    return Record(
        None if key is None else key.decode(errors="replace"),
        parsed,
        message.timestamp()[1],
        message.partition(),
        headers,
    )
