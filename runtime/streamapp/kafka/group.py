# SPDX-License-Identifier: Apache-2.0
"""The app's position as a consumer group, so that every lag tool sees it.

It is only a display: the true position is in the transactions. The group is named by the applicationId and has no
members. So its offsets are written again while nothing moves: brokers forget groups that stay silent.

A consumer does all requests, never librdkafka's admin client: when a coordinator has just started and answers that it
is not one yet, the admin client ends the whole process (confluent-kafka 2.16: the assertion `eonce->refcnt > 0`, or a
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
    """We may not see the group."""


class GroupPosition:
    """Reads and writes the offsets of one group. One thread uses it.

    Raises:
        RunError: when the settings cannot be used.
    """

    def __init__(self, kafka: KafkaConfig, group: str) -> None:
        self._kafka, self._group = kafka, group
        self.trouble: str | None = None
        """The reason why the last write failed, where a new try does not help."""
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
            # Short waits: the client delivers complaints only between them.
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
        """The coordinator's complaint, if it has one: the consumer has subscribed to nothing, so no records come."""
        # This waits a little, so that there is a pause before the next request after an immediate error.
        message = self._consumer.poll(0.1)
        return None if message is None else message.error()

    def write(self, offsets: Mapping[tuple[str, int], int], now: float | None = None) -> bool:
        """Writes the offsets that have changed, or all when the last full write was long ago; False when that failed.

        An offset that is further in the group already stays: a group without members lets everyone write, even a driver
        that was frozen while another one took its place.
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
        """The partitions in which the group is further; none where Kafka does not say."""
        asked = [TopicPartition(topic, partition) for topic, partition in offsets]
        try:
            shown = self._consumer.committed(asked, timeout=1.0)
        except KafkaException:  # the write will show the error
            return set()
        return {(p.topic, p.partition) for p in shown if p.error is None and p.offset > offsets[p.topic, p.partition]}

    def close(self) -> None:
        self._consumer.close()


def may_read(kafka: KafkaConfig, group: str, partitions: Iterable[tuple[str, int]]) -> bool:
    """Whether we may see the group. It asks for the group's offsets for these partitions, and needs at least one."""
    with closing(GroupPosition(kafka, group)) as position:
        try:
            position.read(partitions)
        except GroupNotAllowed:
            return False
        except RunError:  # any other refusal is about the partitions
            pass
    return True
