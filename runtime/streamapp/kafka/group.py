# SPDX-License-Identifier: Apache-2.0
"""The app's position as a consumer group, so that every lag tool sees it.

A display only: the truth is in the transactions. The group is named by the applicationId and has no members, which is
why its offsets are written again while nothing moves: brokers forget groups that stay silent.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streamapp.kafka.client import Troubles, client_settings
from streamapp.kafka.config import KafkaConfig

REFRESH_SECONDS = 600.0


class GroupPosition:
    """Writes the offsets of one group."""

    def __init__(self, kafka: KafkaConfig, group: str) -> None:
        self._group = group
        self.trouble: str | None = None
        """Why the last writing failed, where trying again does not help."""
        settings = {"group.id": group, "enable.auto.commit": False}
        self._consumer = Consumer(client_settings(kafka, Troubles(), **settings))
        self._written: dict[tuple[str, int], int] = {}
        self._written_at = 0.0

    def write(self, offsets: Mapping[tuple[str, int], int], now: float | None = None) -> bool:
        """Writes what has changed, or everything when that was long ago; False when Kafka did not take it."""
        now = time.monotonic() if now is None else now
        stale = now - self._written_at > REFRESH_SECONDS
        changed = {
            key: offset for key, offset in offsets.items() if stale or self._written.get(key) != offset
        }
        if not changed:
            return True
        positions = [
            TopicPartition(topic, partition, offset) for (topic, partition), offset in changed.items()
        ]
        try:
            self._consumer.commit(offsets=positions, asynchronous=False)
        except KafkaException as error:
            forbidden = error.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED
            self.trouble = f"Kafka does not allow Read on group '{self._group}'" if forbidden else None
            return False  # the next call tries again
        self.trouble = None
        self._written.update(changed)
        if stale:
            self._written_at = now
        return True

    def close(self) -> None:
        self._consumer.close()
