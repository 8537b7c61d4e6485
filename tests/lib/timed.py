# SPDX-License-Identifier: Apache-2.0
"""A table and a stream whose records are not in the order of their times, and the order in which an app reads them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from lib.inprocess import App

NOON = 1_704_110_400_000
SECOND = 1000
PARTITIONS = 2


@dataclass(frozen=True)
class Sent:
    """A record of a topic; in a table, a record without `n` is a deletion."""

    topic: str
    partition: int
    key: str
    n: int | None
    at: int
    """Event time in ms."""
    offset: int

    @property
    def value(self) -> dict[str, Any] | None:
        return None if self.n is None else {"n": self.n, "g": f"g{self.n % 3}"}


@dataclass(frozen=True)
class Feed:
    """
    Args:
        topic: the topic of its records.
        backs: seconds by which a record may be older than its place, each equally likely.
        deleted: the share of deletions.
    """

    topic: str
    backs: Sequence[int]
    deleted: float = 0.0


def disordered(seed: int, since: int, count: int, feeds: Sequence[Feed], keys: Sequence[str]) -> Iterator[Sent]:
    """Makes `count` records for each partition of each topic; each key is in one partition. Times rise by up to 3 s a
    record, and fall back now and then."""
    for feed in feeds:
        for partition in range(PARTITIONS):
            rng = random.Random(f"{seed}/{feed.topic}/{partition}")
            at = since
            for i in range(count):
                at += rng.randrange(4) * SECOND
                n = None if rng.random() < feed.deleted else seed * 1000 + i
                key = rng.choice(keys[partition::PARTITIONS])
                yield Sent(feed.topic, partition, key, n, at - rng.choice(feed.backs) * SECOND, seed * count + i)


def send(app: App, records: Iterable[Sent]) -> None:
    for (topic, partition), found in groupby(records, key=lambda sent: (sent.topic, sent.partition)):
        app.send(topic, *((sent.key, sent.value, sent.at) for sent in found), partition=partition)


@dataclass
class StreamTimes:
    """The stream time of each partition, in ms.

    Args:
        table: the topic that comes first among records of one time.
    """

    table: str
    reached: dict[tuple[str, int], int] = field(default_factory=dict)

    def in_order(self, records: Iterable[Sent]) -> list[tuple[int, Sent]]:
        """The records of one epoch in the order in which they are processed, each with the time of its partition
        then."""
        timed = []
        for sent in records:
            place = sent.topic, sent.partition
            self.reached[place] = max(sent.at, self.reached.get(place, sent.at))
            timed.append((self.reached[place], sent))
        return sorted(timed, key=lambda each: (each[0], each[1].topic != self.table, each[1].partition))

    @property
    def closed(self) -> int:
        """The time that all partitions have passed."""
        return min(self.reached.values())
