# SPDX-License-Identifier: Apache-2.0
"""Whom an applicationId belongs to on a Kafka: the record `owner` of its metadata topic (see MetadataTopic.scala)."""

from __future__ import annotations

import time
from contextlib import closing

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from streamapp.errors import RunError
from streamapp.kafka.client import Troubles, make_client, unreachable
from streamapp.kafka.config import KafkaConfig

READ_SECONDS = 30.0
POLL_SECONDS = 0.2
_OWNER = b"owner"


def owner_of(kafka: KafkaConfig, application_id: str, metadata_topic: str) -> str | None:
    """The owner as the driver has written it; None when no driver has ever run.

    Args:
        kafka: where the topic is.
        application_id: the only group that the app's credentials are sure to be allowed.
        metadata_topic: must exist.

    Raises:
        RunError: when the topic cannot be read to its end.
    """
    troubles = Troubles()
    settings = {
        "group.id": application_id,  # nothing is committed, and the group gets no member
        "enable.auto.commit": False,
        "isolation.level": "read_committed",
        # Compaction and transaction markers leave gaps: the end is where the broker says it is, and no last record.
        "enable.partition.eof": True,
    }
    with closing(make_client(Consumer, kafka, troubles, **settings)) as consumer:
        consumer.assign([TopicPartition(metadata_topic, 0, OFFSET_BEGINNING)])
        deadline = time.monotonic() + READ_SECONDS
        found: str | None = None
        while time.monotonic() < deadline:
            message = consumer.poll(POLL_SECONDS)
            if message is None:
                if troubles.fatal:
                    raise unreachable(kafka, troubles)
                continue
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return found
                if not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                    raise RunError(f"topic {metadata_topic!r} cannot be read: {KafkaException(error).args[0].str()}")
                continue
            if message.key() == _OWNER:
                value = message.value()
                found = None if value is None else bytes(value).decode()
    raise RunError(f"topic {metadata_topic!r} could not be read to its end in {READ_SECONDS:.0f} s: {troubles.words()}")
