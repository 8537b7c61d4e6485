# SPDX-License-Identifier: Apache-2.0
"""The app's position as a consumer group, so that every lag tool sees it.

A display only: the truth is in the transactions. The group is named by the applicationId and has no members, which is
why its offsets are written again while nothing moves: brokers forget groups that stay silent.

All is asked by a consumer, never by librdkafka's admin client: a coordinator that has just started, and says that it is
none yet, makes that one end the whole process (confluent-kafka 2.16: the assertion `eonce->refcnt > 0`, or a
segmentation fault).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streamapp.errors import RunError
from streamapp.kafka.client import ANSWER_SECONDS, Troubles, is_unreachable, make_client, unreachable
from streamapp.kafka.config import KafkaConfig

REFRESH_SECONDS = 600.0


class GroupNotAllowed(RunError):
    """The group is not ours to see."""


class GroupPosition:
    """Reads and writes the offsets of one group. One thread uses it.

    Raises:
        RunError: when the settings cannot be used.
    """

    def __init__(self, kafka: KafkaConfig, group: str) -> None:
        self._kafka, self._group = kafka, group
        self.trouble: str | None = None
        """Why the last writing failed, where trying again does not help."""
        settings = {"group.id": group, "enable.auto.commit": False}
        self._troubles = Troubles()
        self._consumer = make_client(Consumer, kafka, self._troubles, **settings)
        self._written: dict[tuple[str, int], int] = {}
        self._written_at = 0.0

    def read(self, partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], int]:
        """The offsets committed for these partitions; one without is left out.

        Raises:
            RunError: when Kafka does not answer, or does not let us.
        """
        wanted = [TopicPartition(topic, partition) for topic, partition in partitions]
        if not wanted:
            return {}
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            # Short waits, as complaints are only delivered between them.
            try:
                found = self._consumer.committed(wanted, timeout=min(1.0, ANSWER_SECONDS))
                break
            except KafkaException as error:
                reason = self._complaint() or error.args[0]
                if reason.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
                    raise GroupNotAllowed(f"Kafka does not allow Describe on group '{self._group}'") from None
                if self._troubles.fatal or time.monotonic() >= deadline:
                    if is_unreachable(error):
                        raise unreachable(self._kafka, self._troubles) from None
                    raise RunError(f"the offsets of group '{self._group}' cannot be read: {reason.str()}") from None
        for each in found:
            if each.error is not None:
                raise RunError(f"the offset of {each.topic}/{each.partition} cannot be read: {each.error.str()}")
        return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def _complaint(self) -> KafkaError | None:
        """Of the coordinator, if it has one: the consumer has subscribed to nothing, so nothing else comes."""
        # Waits a little: an error that comes at once is not asked for again without a pause.
        message = self._consumer.poll(0.1)
        return None if message is None else message.error()

    def write(self, offsets: Mapping[tuple[str, int], int], now: float | None = None) -> bool:
        """Writes what has changed, or everything when that was long ago; False when Kafka did not take it.

        What is further there already stays: a group without members lets everyone write, also a driver that was frozen
        while another one took its place.
        """
        now = time.monotonic() if now is None else now
        stale = now - self._written_at > REFRESH_SECONDS
        changed = {key: offset for key, offset in offsets.items() if stale or self._written.get(key) != offset}
        if not changed:
            return True
        ahead = self._ahead_of(changed)
        positions = [
            TopicPartition(topic, partition, offset)
            for (topic, partition), offset in changed.items()
            if (topic, partition) not in ahead
        ]
        try:
            if positions:
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

    def _ahead_of(self, offsets: Mapping[tuple[str, int], int]) -> set[tuple[str, int]]:
        """Partitions that the group is further in; none where Kafka does not say."""
        asked = [TopicPartition(topic, partition) for topic, partition in offsets]
        try:
            shown = self._consumer.committed(asked, timeout=1.0)
        except KafkaException:  # the writing will tell
            return set()
        return {(p.topic, p.partition) for p in shown if p.error is None and p.offset > offsets[p.topic, p.partition]}

    def close(self) -> None:
        self._consumer.close()


def may_read(kafka: KafkaConfig, group: str, partitions: Iterable[tuple[str, int]]) -> bool:
    """Whether the group is ours to see, asked by its offsets for these partitions, of which there must be one."""
    with closing(GroupPosition(kafka, group)) as position:
        try:
            position.read(partitions)
        except GroupNotAllowed:
            return False
        except RunError:  # any other no is about the partitions
            pass
    return True
