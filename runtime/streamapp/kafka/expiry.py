# SPDX-License-Identifier: Apache-2.0
"""Unread records that their topic will soon delete: an app this far behind is about to lose some."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from streamapp.errors import RunError
from streamapp.kafka.admin import Admin, MissingTopic

NEAR = 0.8
"""The share of a topic's retention time after which records are near their end."""
LOOK_SECONDS = 15.0
SETTINGS_SECONDS = 600.0


class Expiry:
    """Counts the unread records near their end. One thread calls this.

    Args:
        admin: a connection to Kafka.
        clock: seconds that never go back.
        now: seconds since 1970.
    """

    def __init__(
        self, admin: Admin, clock: Callable[[], float] = time.monotonic, now: Callable[[], float] = time.time
    ) -> None:
        self._admin, self._clock, self._now = admin, clock, now
        self._looked_at = self._asked_at = float("-inf")
        self._asked: frozenset[str] = frozenset()
        self._retention: dict[str, float] = {}
        self.expiring: dict[str, int] = {}
        """The number of unread records near their end, by TOPIC/PARTITION. Topics without a retention time, or with one
        that we may not see, are left out."""

    def look(self, positions: Mapping[tuple[str, int], int], lag: Mapping[str, int]) -> None:
        """Counts again, if the last look was long enough ago.

        Args:
            positions: the offsets of the next records to read.
            lag: the number of unread records, by TOPIC/PARTITION.

        Raises:
            RunError: when Kafka does not answer.
        """
        if self._clock() - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = self._clock()
        topics = {topic for topic, _ in positions}
        self._ask(topics)
        found: dict[str, int] = {}
        for topic in sorted(topics & self._retention.keys()):
            try:
                young = self._admin.offsets_since(topic, self._now() - NEAR * self._retention[topic])
            except MissingTopic:
                continue
            for partition, offset in young.items():
                where, position = f"{topic}/{partition}", positions.get((topic, partition))
                if position is not None:
                    behind = lag.get(where, 0)
                    found[where] = behind if offset is None else min(behind, max(0, offset - position))
        self.expiring = found

    def _ask(self, topics: Collection[str]) -> None:
        """Reads the topics' retention times. They seldom change, so it asks again only after SETTINGS_SECONDS or for
        new topics. Topics whose settings we may not see stay unknown."""
        if self._asked.issuperset(topics) and self._clock() - self._asked_at < SETTINGS_SECONDS:
            return
        self._asked, self._asked_at = frozenset(topics), self._clock()
        try:
            configs = self._admin.configs(sorted(topics))
        except RunError:
            return
        self._retention = {
            topic: int(config["retention.ms"]) / 1000
            for topic, config in configs.items()
            if "delete" in config.get("cleanup.policy", "") and int(config.get("retention.ms", -1)) >= 0
        }
