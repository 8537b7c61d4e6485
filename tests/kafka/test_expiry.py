# SPDX-License-Identifier: Apache-2.0
"""The number of unread records that their topic will soon delete, read from a real broker."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from lib.broker import in_order
from lib.clock import Clock
from lib.faults import alter
from streamapp.kafka.admin import Admin
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.expiry import LOOK_SECONDS, SETTINGS_SECONDS, Expiry

pytestmark = pytest.mark.kafka

NOW = time.time()
HOUR = 3600


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def expiry(kafka: KafkaConfig, clock: Clock) -> Expiry:
    return Expiry(Admin(kafka), clock, now=lambda: NOW)


def send(kafka: KafkaConfig, topic: str, partition: int, *ages: float) -> None:
    producer = in_order(kafka)
    for age in ages:
        producer.produce(topic, b"x", b"k", partition=partition, timestamp=int((NOW - age) * 1000))
    assert producer.flush(30) == 0


def test_old_records_that_are_still_to_be_read_are_counted(
    kafka: KafkaConfig, topic: Callable[..., str], expiry: Expiry, clock: Clock
) -> None:
    """Four fifths of an hour are 2880 seconds."""
    name = topic(partitions=4, retention_ms=str(HOUR * 1000))
    send(kafka, name, 0, 3300, 3200, 3100, 100)  # the first was read, two of the others are old
    send(kafka, name, 1, 3000, 2900)  # nothing young
    send(kafka, name, 2, 3300, 100)  # the old one was read
    lag = {f"{name}/0": 3, f"{name}/1": 2, f"{name}/2": 1, f"{name}/3": 0}
    expiry.look({(name, 0): 1, (name, 1): 0, (name, 2): 1, (name, 3): 0}, lag)
    assert expiry.expiring == {f"{name}/0": 2, f"{name}/1": 2, f"{name}/2": 0, f"{name}/3": 0}

    clock.now += LOOK_SECONDS - 1
    expiry.look({(name, 0): 3}, {f"{name}/0": 1})
    assert expiry.expiring[f"{name}/0"] == 2  # not yet again
    clock.now += 2
    expiry.look({(name, 0): 3}, {f"{name}/0": 1})
    assert expiry.expiring == {f"{name}/0": 0}


@pytest.mark.parametrize("settings", [{"cleanup_policy": "compact"}, {"retention_ms": "-1"}], ids=str)
def test_where_records_are_kept_for_ever_nothing_expires(
    kafka: KafkaConfig, topic: Callable[..., str], expiry: Expiry, clock: Clock, settings: dict[str, str]
) -> None:
    name = topic(**settings)
    send(kafka, name, 0, 3300)
    expiry.look({(name, 0): 0}, {f"{name}/0": 1})
    assert expiry.expiring == {}

    alter(kafka, name, cleanup_policy="delete", retention_ms=str(HOUR * 1000))
    clock.now += SETTINGS_SECONDS + 1
    expiry.look({(name, 0): 0}, {f"{name}/0": 1})
    assert expiry.expiring == {f"{name}/0": 1}
