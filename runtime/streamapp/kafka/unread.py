# SPDX-License-Identifier: Apache-2.0
"""How old the oldest record is that is still to be read, and how long its topic keeps records: an app that comes near
loses some."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaException, TopicPartition

from streamapp.errors import RunError
from streamapp.kafka.admin import Admin
from streamapp.kafka.client import Troubles, client_settings
from streamapp.kafka.config import KafkaConfig

LOOK_SECONDS = 15.0
"""From one look at the records to the next."""
READ_SECONDS = 1.0
"""So long a look takes at most; partitions that have not answered by then are left out."""
SETTINGS_SECONDS = 600.0
Where = tuple[str, int]


class Unread:
    """One thread calls this.

    Args:
        kafka: where the topics are.
        admin: a connection to it.
        clock: seconds that never go back.
        now: seconds since 1970.
    """

    def __init__(
        self,
        kafka: KafkaConfig,
        admin: Admin,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._kafka, self._admin, self._clock, self._now = kafka, admin, clock, now
        self._consumer: Consumer | None = None
        self._looked_at = self._asked_at = float("-inf")
        self.ages: dict[str, float] = {}
        """By TOPIC/PARTITION, seconds since the timestamp of the oldest record that is still to be read; 0 for none."""
        self.retention: dict[str, float] = {}
        """By topic, seconds for which it keeps records; topics that keep them for ever, or do not say, are left out."""

    def look(self, positions: Mapping[Where, int], lag: Mapping[str, int]) -> None:
        """Looks anew, if the last look was long enough ago.

        Args:
            positions: offsets of the next records to be read.
            lag: records to be read, by TOPIC/PARTITION.
        """
        if self._clock() - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = self._clock()
        self._ask({topic for topic, _ in positions})
        behind = {where: offset for where, offset in positions.items() if lag.get(_text(where))}
        first = self._first(behind)
        now = self._now()
        ages = {_text(where): 0.0 for where in positions if where not in behind}
        self.ages = ages | {_text(where): round(max(0.0, now - at), 1) for where, at in first.items()}

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()

    def _ask(self, topics: Iterable[str]) -> None:
        """For how long topics keep records changes seldom. Who may not know does without."""
        if self._clock() - self._asked_at < SETTINGS_SECONDS:
            return
        self._asked_at = self._clock()
        try:
            configs = self._admin.configs(sorted(topics))
        except RunError:
            return
        self.retention = {
            topic: int(config["retention.ms"]) / 1000
            for topic, config in configs.items()
            if "delete" in config.get("cleanup.policy", "") and int(config.get("retention.ms", -1)) >= 0
        }

    def _first(self, positions: Mapping[Where, int]) -> dict[Where, float]:
        """The timestamps of the records there, in seconds since 1970."""
        if not positions:
            return {}
        if self._consumer is None:
            self._consumer = Consumer(client_settings(self._kafka, Troubles(), **_READER))
        self._consumer.assign([TopicPartition(*where, offset) for where, offset in positions.items()])
        found: dict[Where, float] = {}
        deadline = self._clock() + READ_SECONDS
        try:
            while len(found) < len(positions) and self._clock() < deadline:
                message = self._consumer.poll(0.1)
                if message is None or message.error() is not None:
                    continue
                where = str(message.topic()), int(message.partition() or 0)
                self._consumer.pause([TopicPartition(*where)])
                kind, millis = message.timestamp()
                if kind != TIMESTAMP_NOT_AVAILABLE:
                    found.setdefault(where, millis / 1000)
            self._consumer.unassign()
        except KafkaException:
            pass  # the queries find out by themselves
        return found


_READER = {
    "group.id": "streamapp-unread",  # nothing is committed, so no group comes into being
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "auto.offset.reset": "earliest",
    # One record of each partition is wanted.
    "queued.min.messages": 1,
    "max.partition.fetch.bytes": 1,
}


def _text(where: Where) -> str:
    return f"{where[0]}/{where[1]}"
