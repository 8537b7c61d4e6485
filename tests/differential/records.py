# SPDX-License-Identifier: Apache-2.0
"""Records that go into both, seeded, and records that come out."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

NOON = 1_704_110_400_000
SECOND = 1000
TIME = "~time"
"""The key of a record that does nothing but move stream time."""
END = "~end"
"""How the key of the last record of each partition of a stream begins. It is so late that all before it is over."""
HOUR = 3600 * SECOND
"""How long the records of a part may take."""
STREAMS, TABLES = ("s", "t"), ("u", "v")
FIELDS = "n BIGINT, g STRING, x BIGINT"
"""`n` numbers the records of a topic, `g` is a text to group by, `x` a number to compute with."""


@dataclass(frozen=True)
class Sent:
    """A record of a topic; `partition` is where it lies here, Kafka Streams is asked for each partition alone."""

    topic: str
    key: str | None
    value: Mapping[str, Any] | None
    timestamp: int
    partition: int = 0


@dataclass(frozen=True)
class Result:
    """A record that came out, with its value as text."""

    key: str | None
    value: str | None
    timestamp: int

    @property
    def fields(self) -> Mapping[str, Any]:
        """The value's fields; of a deletion there are none."""
        return {} if self.value is None else json.loads(self.value)


def text_of(value: Any) -> str | None:
    """A value in the one form in which equal values are equal texts; null stays None."""
    return None if value is None else json.dumps(value, sort_keys=True)


def seeded(seed: int, *sizes: int, partitions: int = 1) -> list[list[Sent]]:
    """Parts of so many records in each topic and partition: late, of equal times and out of order, without key, without
    value.

    A key lies in one partition, the same in each topic, and so do the texts in `g`, which are keys too. At its end a
    part has the same stream time everywhere.
    """
    parts: list[list[Sent]] = []
    for size in sizes:
        start = NOON + HOUR * len(parts)
        rng = random.Random(f"{seed}/{len(parts)}")
        made = [_of(rng, topic, p, start, size) for p in range(partitions) for topic in (*STREAMS, *TABLES)]
        parts.append([sent for records in made for sent in records])
    return parts


def _of(rng: random.Random, topic: str, partition: int, start: int, size: int) -> Iterator[Sent]:
    """Whole seconds, so that records often lie on the border of a window."""
    keys = [f"{letter}{partition}" for letter in "abc"]
    at = start
    for i in range(size):
        at += rng.choice((0, 0, 1, 1, 1, 2, 7)) * SECOND
        fallen_back = rng.randrange(20) * SECOND if rng.random() < 0.3 else 0
        key = None if rng.random() < 0.06 else rng.choice(keys)
        value = {
            "n": start - NOON + 1000 * partition + i,
            "g": rng.choice((*keys, f"none{partition}", None)),
            "x": rng.choice((None, -2, -1, 1, 2, 3)),
        }
        nothing = rng.random() < (0.25 if topic in TABLES else 0.06)
        yield Sent(topic, key, None if nothing else value, at - fallen_back, partition)
    if topic in STREAMS:
        yield Sent(
            topic,
            end := f"{END}{partition}",
            {"n": start - NOON - 1 - partition, "g": end, "x": 0},
            start + HOUR,
            partition,
        )


def with_stream_time(records: Iterable[Sent]) -> Iterator[tuple[Sent, int]]:
    """Each with how far the time of its partition had come when it was read."""
    reached: dict[tuple[str, int], int] = {}
    for sent in records:
        place = sent.topic, sent.partition
        reached[place] = max(sent.timestamp, reached.get(place, sent.timestamp))
        yield sent, reached[place]


def processed(part: Sequence[Sent], one_by_one: bool, first: bool) -> list[Sent]:
    """A part in the order in which a task that has all its topics processes it.

    Args:
        one_by_one: an epoch takes one record of each partition; else one takes all.
        first: the app starts for the first time: its tables are read before a stream.
    """
    of_tables = [sent for sent in part if sent.topic in TABLES]
    of_streams = [sent for sent in part if sent.topic not in TABLES]
    together = [of_tables, of_streams] if first else [[*of_tables, *of_streams]]
    if not one_by_one:
        return [sent for some in together for sent in merged(some)]
    found = []
    for some in together:
        by_place: dict[tuple[str, int], list[tuple[int, Sent]]] = {}
        for sent, now in with_stream_time(some):
            by_place.setdefault((sent.topic, sent.partition), []).append((now, sent))
        for epoch in zip_longest(*by_place.values()):
            there = [one for one in epoch if one is not None]
            there.sort(key=lambda one: (one[0], one[1].topic not in TABLES))
            found += [sent for _, sent in there]
    return found


def merged(records: Iterable[Sent]) -> list[Sent]:
    """In the order in which partitions advance together: by stream time, tables before streams."""
    timed = list(with_stream_time(records))
    timed.sort(key=lambda pair: (pair[1], pair[0].topic not in TABLES))
    return [sent for sent, _ in timed]
