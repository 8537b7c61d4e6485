# SPDX-License-Identifier: Apache-2.0
"""Internal topics do not grow with the time that an app runs: their settings let the broker tidy them.

Sizes and times of the settings are scaled down alike, so that a few seconds show what otherwise takes hours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from lib.broker import in_order, unique_name
from lib.faults import alter, quick_broker
from lib.wait import until
from streamapp.compile import compile_manifest
from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.topics import topics_of, tune
from streamapp.manifest import parse_manifest

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]

MANIFEST = """
apiVersion: streamapp.dev/v1alpha1
kind: StreamApp
metadata: {name: $T}
spec:
  maxParallelism: 1
  topology:
  - {name: in, stream: {topic: $T-in, value: text}}
  - {name: drawn, with: {'n': cast(rand() * 0 as int)}}
  - {name: counts, groupBy: ['n'], aggregate: {count: count(*)}}
  - {name: out, to: {topic: $T-out}}
"""


@pytest.fixture(scope="module")
def tidy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[KafkaConfig, Path]]:
    """A broker that tidies at once, and its folder."""
    folder = tmp_path_factory.mktemp("tidy")
    at_once = {"log_retention_check_interval_ms": "200", "log_segment_delete_delay_ms": "0"}
    with quick_broker(folder, log_initial_task_delay_ms="100", **at_once) as broker:
        yield KafkaConfig(broker.bootstrap_servers), folder


def internal(role: str) -> TopicSpec:
    plan = compile_manifest(parse_manifest(MANIFEST.replace("$T", unique_name("small"))))
    (name,) = [topic.name for topic in plan.topics if topic.role == role]
    return next(spec for spec in topics_of(plan) if spec.name == name)


def make(kafka: KafkaConfig, spec: TopicSpec, bytes_by: int, time_by: int = 1) -> None:
    """Makes the topic as an app makes it, with its sizes and times divided."""
    admin = Admin(kafka)
    admin.create([spec])
    settings = admin.configs([spec.name])[spec.name]
    alter(
        kafka,
        spec.name,
        internal_segment_bytes=str(int(settings["segment.bytes"]) // bytes_by),
        delete_retention_ms=str(int(settings["delete.retention.ms"]) // time_by),
    )


def size(folder: Path, topic: str) -> int:
    """Bytes of a topic's records and markers on disk."""
    found = 0
    for file in folder.glob(f"data/{topic}-0/*.log"):
        try:
            found += file.stat().st_size
        except FileNotFoundError:  # deleted meanwhile
            continue
    return found


@pytest.mark.parametrize("role", ["position", "metadata"])
def test_commits_do_not_pile_up(tidy: tuple[KafkaConfig, Path], role: str) -> None:
    """A driver that starts reads the whole topic: its size must not depend on how long the last one ran."""
    kafka, folder = tidy
    spec = internal(role)
    make(kafka, spec, bytes_by=128, time_by=3600)
    producer = Producer({**kafka.for_librdkafka(), "transactional.id": f"{spec.name}/x", "linger.ms": 0})
    producer.init_transactions(30)
    commits = 600
    for done in range(commits):
        producer.begin_transaction()
        producer.produce(spec.name, done.to_bytes(8), b"part/topic/0", partition=0)
        producer.commit_transaction(30)
    written = commits * (len(b"part/topic/0") + 8 + 61 + 78)  # a batch with one record, and a batch with the marker
    (end,) = Admin(kafka).end_offsets(spec.name).values()
    assert end == 2 * commits

    def tidied() -> bool:
        # The broker checks a topic when a record is written to it.
        producer.begin_transaction()
        producer.produce(spec.name, b"", b"part/topic/0", partition=0)
        producer.commit_transaction(30)
        return size(folder, spec.name) < written // 4

    until(tidied, 20, f"{spec.name} tidied: {written} bytes were written", every=0.02)


def test_what_is_purged_from_a_hop_frees_the_disk(tidy: tuple[KafkaConfig, Path]) -> None:
    kafka, folder = tidy
    spec = internal("repartition")
    make(kafka, spec, bytes_by=50)
    admin = Admin(kafka)
    producer = in_order(kafka)
    for _ in range(16):
        for _ in range(4):
            producer.produce(spec.name, bytes(256 << 10), partition=0)
        assert producer.flush(30) == 0
        admin.purge({(spec.name, 0): admin.end_offsets(spec.name)[0]})
    until(lambda: size(folder, spec.name) <= 2 << 20, 20, f"{spec.name} on disk below 2 MiB of 16 MiB", every=0.05)


def test_a_topic_of_an_earlier_version_is_altered(tidy: tuple[KafkaConfig, Path]) -> None:
    kafka, _ = tidy
    admin, spec = Admin(kafka), internal("position")
    admin.create([replace(spec, wishes={}, config={"cleanup.policy": "compact", "delete.retention.ms": "604800000"})])
    assert tune(admin, [spec]) == []
    wanted = {**spec.config, **spec.wishes}
    # The controller has answered; the broker that is asked may not have heard of it yet.
    until(lambda: wanted.items() <= admin.configs([spec.name])[spec.name].items(), 30, "the settings", every=0.05)
    assert tune(admin, [replace(spec, wishes={"segment.bytes": "1"})])[0].startswith(
        f"internal topic '{spec.name}' grows more than it has to: "
    )
    assert tune(admin, [replace(spec, wishes={"message.timestamp.after.max.ms": "-5"})])[0].startswith(
        f"internal topic '{spec.name}' may refuse a record whose event time is far ahead: "
    )


def test_a_service_that_does_not_take_a_wish_takes_the_topic(tidy: tuple[KafkaConfig, Path]) -> None:
    kafka, _ = tidy
    admin, spec = Admin(kafka), internal("position")
    admin.create([replace(spec, wishes={"segment.bytes": "1"})])
    seen = admin.configs([spec.name])[spec.name]
    assert spec.config.items() <= seen.items()
    assert seen["segment.bytes"] == str(1 << 30)
