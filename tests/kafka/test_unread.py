# SPDX-License-Identifier: Apache-2.0
"""How old the oldest unread record is, asked of a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer

from streamapp.kafka.admin import Admin
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.unread import LOOK_SECONDS, Unread

pytestmark = pytest.mark.kafka

NOW = time.time()
HOUR = 3600


class Clock:
    """Moves when told to, and a little with each look, so that deadlines come."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def unread(kafka: KafkaConfig, clock: Clock) -> Iterator[Unread]:
    found = Unread(kafka, Admin(kafka), clock, now=lambda: NOW)
    yield found
    found.close()


def send(kafka: KafkaConfig, topic: str, partition: int, *ages: float) -> None:
    producer = Producer(kafka.for_librdkafka())
    for age in ages:
        producer.produce(topic, b"x", partition=partition, timestamp=int((NOW - age) * 1000))
    assert producer.flush(30) == 0


def test_the_age_is_that_of_the_record_at_the_position(
    kafka: KafkaConfig, topic: Callable[..., str], unread: Unread, clock: Clock
) -> None:
    name = topic(partitions=3, retention_ms=str(HOUR * 1000))
    send(kafka, name, 0, 3000, 2000, 1000)
    send(kafka, name, 1, 500)
    unread.look({(name, 0): 1, (name, 1): 0, (name, 2): 0}, {f"{name}/0": 2, f"{name}/1": 1, f"{name}/2": 0})
    assert unread.ages == {f"{name}/0": 2000, f"{name}/1": 500, f"{name}/2": 0}
    assert unread.retention == {name: HOUR}

    clock.now += LOOK_SECONDS - 1
    unread.look({(name, 0): 3}, {f"{name}/0": 0})
    assert unread.ages[f"{name}/0"] == 2000  # not yet again
    clock.now += 2
    unread.look({(name, 0): 3}, {f"{name}/0": 0})
    assert unread.ages == {f"{name}/0": 0}


@pytest.mark.parametrize("settings", [{"cleanup_policy": "compact"}, {"retention_ms": "-1"}], ids=str)
def test_a_topic_that_keeps_records_for_ever_has_no_retention(
    topic: Callable[..., str], unread: Unread, settings: dict[str, str]
) -> None:
    name = topic(**settings)
    unread.look({(name, 0): 0}, {f"{name}/0": 0})
    assert unread.retention == {}
