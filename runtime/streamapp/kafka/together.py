# SPDX-License-Identifier: Apache-2.0
"""Several records at once: written in one transaction, or read from a reader's positions on."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from streamapp.errors import InputError, RunError
from streamapp.kafka.admin import Admin
from streamapp.kafka.client import Troubles, make_client, unreachable
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.console import Record

SECONDS = 30.0


def send_together(kafka: KafkaConfig, topic: str, records: Sequence[Record]) -> None:
    """Writes the records in one transaction: a reader of committed records sees all of a partition's records or none.

    Raises:
        InputError: a record is refused.
        RunError: Kafka does not answer.
    """
    troubles = Troubles()
    refused: list[KafkaError] = []
    settings = {"transactional.id": f"streamapp-test-{uuid4()}", "partitioner": "murmur2_random", "linger.ms": 5}
    producer = make_client(Producer, kafka, troubles, **settings)
    try:
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        for number, record in enumerate(records, start=1):
            more: dict[str, Any] = {} if record.partition is None else {"partition": record.partition}
            if record.headers:
                more["headers"] = record.headers
            try:
                producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    timestamp=record.timestamp or 0,
                    on_delivery=lambda error, _: refused.append(error) if error is not None else None,
                    **more,
                )
            except KafkaException as error:
                raise _refusal(topic, number, error.args[0]) from None
        producer.flush(SECONDS)
        if refused:
            raise _refusal(topic, None, refused[0])
        producer.commit_transaction(SECONDS)
    except KafkaException as error:
        raise (_refusal(topic, None, refused[0]) if refused else unreachable(kafka, troubles)) from error


def read_on(kafka: KafkaConfig, topic: str, positions: Mapping[int, int]) -> tuple[list[Message], dict[int, int]]:
    """The committed records of a topic from these positions to its end, partition by partition; and the end.

    Args:
        kafka: where the topic is.
        topic: the topic to read.
        positions: the offsets to begin at, by partition; a partition without one is read from its beginning.

    Raises:
        MissingTopic: there is no such topic.
        RunError: Kafka does not answer.
    """
    admin = Admin(kafka)
    ends, starts = admin.end_offsets(topic), admin.start_offsets(topic)
    troubles = Troubles()
    settings = {
        "group.id": f"streamapp-test-{uuid4()}",
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        "auto.offset.reset": "error",
    }
    consumer = make_client(Consumer, kafka, troubles, **settings)
    found: list[Message] = []
    try:
        for partition, end in sorted(ends.items()):
            at = TopicPartition(topic, partition, max(positions.get(partition, 0), starts[partition]))
            if at.offset >= end:
                continue
            consumer.assign([at])
            deadline = time.monotonic() + SECONDS
            # A transaction's markers take offsets too: the end is the reader's position, not its last record.
            while (position := consumer.position([at])[0].offset) < end:
                if time.monotonic() > deadline:
                    raise unreachable(kafka, troubles)
                for message in consumer.consume(1000, 0.1):
                    if (error := message.error()) is not None:
                        raise RunError(f"cannot read topic {topic!r} at {position}: {error.str()}")
                    found.append(message)
        return found, ends
    finally:
        consumer.close()


def _refusal(topic: str, number: int | None, error: KafkaError) -> InputError:
    which = "" if number is None else f"record {number}: "
    return InputError(f"{which}topic {topic!r} does not take it: {error.str()}")
