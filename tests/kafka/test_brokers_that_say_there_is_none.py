# SPDX-License-Identifier: Apache-2.0
"""A broker that goes down, or that is late with a heartbeat to its controller, may say that there are no brokers. Our
clients find them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

import pytest
from confluent_kafka import Consumer, KafkaError

from lib.broker import in_order
from lib.relay import Relay
from lib.wait import until
from streamapp.errors import RunError
from streamapp.kafka import admin as admin_module
from streamapp.kafka import client
from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.broker import EmbeddedBroker
from streamapp.kafka.client import Troubles, make_client
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.reader import Reader

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]

MakeTopic = Callable[..., str]
T = TypeVar("T")


@pytest.fixture(scope="module")
def relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Relay]:
    with Relay() as running:
        properties = {"advertised.listeners": f"BROKER://{running.address}"}
        with EmbeddedBroker(tmp_path_factory.mktemp("broker"), properties=properties) as broker:
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


def test_questions_about_topics_are_answered_again(
    kafka: KafkaConfig, relay: Relay, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, admin = topic(), Admin(kafka)
    assert name in admin.topics()
    with relay.without_brokers(), monkeypatch.context() as impatient:
        impatient.setattr(admin_module, "ANSWER_SECONDS", 0.5)
        assert _answered(admin.topics) is None
    until(lambda: _answered(lambda: admin.end_offsets(name)) == {0: 0}, 60, "an answer")


@pytest.mark.parametrize(
    "question",
    [
        lambda admin, topic: admin.topics()[topic].partitions == 1,
        lambda admin, topic: admin.end_offsets(topic) == {0: 0},
        lambda admin, topic: admin.topic_ids([topic]).keys() == {topic},
        lambda admin, topic: admin.allowed_on([topic]).keys() == {topic},
        lambda admin, topic: admin.configs([topic])[topic]["cleanup.policy"] == "delete",
        lambda admin, topic: admin.create([TopicSpec(f"{topic}-2", "test", 1)]) is None,
    ],
    ids=["topics", "offsets", "ids", "operations", "settings", "creation"],
)
def test_the_first_question_of_a_client_is_answered(
    kafka: KafkaConfig, relay: Relay, topic: MakeTopic, question: Callable[[Admin, str], bool]
) -> None:
    name = topic()
    with ThreadPoolExecutor(1) as other, relay.without_brokers(breaks=False):
        answer = other.submit(lambda: question(Admin(kafka), name))
    assert answer.result(60)


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
    ],
)
def test_offsets_are_asked_for_again_while_a_leader_moves(
    kafka: KafkaConfig, relay: Relay, topic: MakeTopic, code: int
) -> None:
    name, admin = topic(), Admin(kafka)
    relay.refuse_offsets(code)
    assert admin.end_offsets(name) == {0: 0}
    assert relay.has_refused


def test_another_refusal_is_an_error(kafka: KafkaConfig, relay: Relay, topic: MakeTopic) -> None:
    name, admin = topic(), Admin(kafka)
    relay.refuse_offsets(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(RunError, match="would not read the offsets of topic"):
        admin.end_offsets(name)


def test_a_cluster_that_has_no_broker_is_named(
    kafka: KafkaConfig, relay: Relay, topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic()
    monkeypatch.setattr(admin_module, "ANSWER_SECONDS", 0.5)
    with relay.without_brokers(), pytest.raises(RunError, match="says that its cluster has no broker; wait until"):
        Admin(kafka).configs(["any"])


def _answered(question: Callable[[], T]) -> T | None:
    try:
        return question()
    except RunError:
        return None
