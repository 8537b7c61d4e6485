# SPDX-License-Identifier: Apache-2.0
"""A broker that goes down may say that there are no brokers. Our clients find them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from lib.broker import in_order
from lib.relay import Relay
from lib.wait import until
from streamapp.errors import RunError
from streamapp.kafka import client
from streamapp.kafka.admin import Admin
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.client import Troubles, make_client
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.reader import Reader

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

MakeTopic = Callable[..., str]


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[Relay]:
    with Relay() as running:
        properties = {"advertised.listeners": f"BROKER://{running.address}"}
        with EmbeddedBroker(tmp_path, properties=properties) as broker:
            running.lead_to(broker.bootstrap_servers)
            yield running


@pytest.fixture(autouse=True)
def believing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes clients ask often, and keep on believing that there is no broker: by themselves they do so only if the
    connection breaks at the wrong moment."""
    settings = {"topic.metadata.refresh.interval.ms": 500, "metadata.recovery.strategy": "none"}
    usual = client.client_settings
    monkeypatch.setattr(client, "client_settings", lambda *known, **more: {**usual(*known, **more), **settings})


@pytest.fixture
def kafka(relay: Relay) -> KafkaConfig:
    return KafkaConfig(relay.address)


def send(kafka: KafkaConfig, topic: str, *values: str) -> None:
    producer = in_order(kafka)
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(30) == 0


def read(reader: Reader, count: int) -> list[str]:
    found: list[str] = []

    def come() -> bool:
        found.extend((message.value() or b"").decode() for message in reader.read(100, 0.2) if message.error() is None)
        return len(found) >= count

    until(come, 60, f"{count} records")
    return found


def test_a_reader_goes_on_where_it_was(kafka: KafkaConfig, relay: Relay, topic: MakeTopic) -> None:
    name, settings = topic(), {"group.id": "reader", "enable.auto.commit": False, "auto.offset.reset": "error"}
    send(kafka, name, "a", "b")
    with closing(Reader(lambda: make_client(Consumer, kafka, Troubles(), **settings), {(name, 0): 0})) as reader:
        assert read(reader, 2) == ["a", "b"]
        with relay.without_brokers():
            reader.partitions_of(name)
        send(kafka, name, "c", "d")
        until(lambda: reader.partitions_of(name) == 1, 60, "an answer")
        assert read(reader, 2) == ["c", "d"]


def test_questions_about_topics_are_answered_again(kafka: KafkaConfig, relay: Relay, topic: MakeTopic) -> None:
    name, admin = topic(), Admin(kafka)
    assert name in admin.topics()
    with relay.without_brokers():
        admin.topics()
    until(lambda: _answered(lambda: admin.end_offsets(name)) == {0: 0}, 60, "an answer")


def _answered(question: Callable[[], dict[int, int]]) -> dict[int, int] | None:
    try:
        return question()
    except RunError:
        return None
