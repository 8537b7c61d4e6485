# SPDX-License-Identifier: Apache-2.0
"""Records that go into both StreamApp and Kafka Streams, seeded or published, and records that come out."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

NOON = 1_704_110_400_000
SECOND = 1000
HOUR = 3600 * SECOND
"""The time that the records of a part may take."""
TIME = "~time"
"""The key of a record that does nothing but move stream time."""
END = "~end"
"""The prefix of the key of a partition's last record in a part. That record is so late that all before it is over."""
STREAMS, TABLES = ("s", "t"), ("u", "v")
FIELDS = "n BIGINT, g STRING, x BIGINT"
"""The fields of a value: `n` numbers the records of a topic, `g` is a text to group by, `x` a number to compute
with."""


@dataclass(frozen=True)
class Sent:
    """A record of a topic.

    Attributes:
        partition: where it lies here; Kafka Streams is asked for each partition alone.
        turn: when it is read here. Those of one turn may be read in one epoch.
    """

    topic: str
    key: str | None
    value: Mapping[str, Any] | None
    timestamp: int
    partition: int = 0
    turn: int = 0


@dataclass(frozen=True)
class Result:
    """A record that came out, with its value as text."""

    key: str | None
    value: str | None
    timestamp: int

    @property
    def fields(self) -> Mapping[str, Any]:
        """The value's fields; empty for a deletion."""
        return {} if self.value is None else json.loads(self.value)


def text_of(value: Any) -> str | None:
    """A value in the one form in which equal values are equal texts; null stays None."""
    return None if value is None else json.dumps(value, sort_keys=True)


# --- input --------------------------------------------------------------------------------------------------


def seeded(seed: int, part: int, size: int, partitions: int) -> list[Sent]:
    """Makes `size` records in each topic and partition: late, of equal times and out of order, without key, without
    value.

    A key lies in one partition, the same in each topic, and so do the texts in `g`, which are keys too.
    """
    rng = random.Random(f"{seed}/{part}")
    places = [(topic, partition) for partition in range(partitions) for topic in (*STREAMS, *TABLES)]
    return [sent for place in places for sent in _of(rng, *place, NOON + HOUR * part, size)]


def _of(rng: random.Random, topic: str, partition: int, start: int, size: int) -> Iterator[Sent]:
    """A record at a time in whole seconds, so that records often lie on the border of a window."""
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


def published() -> list[Sent]:
    """The records of the joins in Kafka's own manual, as streams and as tables; `n` is the letter's code."""
    rows = yaml.safe_load(Path(__file__).with_name("published.yaml").read_text())["records"]
    return [
        Sent(
            topic,
            "k",
            None if row[side] is None else {"n": ord(row[side]), "g": "k", "x": 1},
            NOON + row["second"] * SECOND,
        )
        for side, topics in (("left", ("s", "u")), ("right", ("t", "v")))
        for topic in topics
        for row in rows
        if side in row
    ]


def ended(records: Iterable[Sent], part: int, turn: int, one_by_one: bool) -> list[Sent]:
    """Returns a part: its records in turns, and a last one for each partition. Stream time is the same everywhere then.

    Args:
        turn: the first one.
        one_by_one: whether each record of a partition has a turn of its own.
    """
    read = list(records)
    places = sorted({(sent.topic, sent.partition) for sent in read})
    for topic, partition in places:
        key, n = f"{END}{partition}", HOUR * part - 1 - partition
        read.append(Sent(topic, key, {"n": n, "g": key, "x": 0}, NOON + HOUR * (part + 1), partition))
    taken: Counter[tuple[str, int]] = Counter()
    for i, sent in enumerate(read):
        read[i] = replace(sent, turn=turn + taken[sent.topic, sent.partition])
        taken[sent.topic, sent.partition] += one_by_one
    return read


# --- in which order -----------------------------------------------------------------------------------------


def with_stream_time(records: Iterable[Sent]) -> Iterator[tuple[Sent, int]]:
    """Each record with the stream time of its partition at the moment when it was read."""
    reached: dict[tuple[str, int], int] = {}
    for sent in records:
        place = sent.topic, sent.partition
        reached[place] = max(sent.timestamp, reached.get(place, sent.timestamp))
        yield sent, reached[place]


def by_turn(records: Iterable[Sent]) -> list[Sent]:
    """Returns the records in the order in which they are read here: within a turn by stream time, tables before
    streams."""
    timed = list(with_stream_time(records))
    timed.sort(key=lambda pair: (pair[0].turn, pair[1], pair[0].topic not in TABLES))
    return [sent for sent, _ in timed]


def by_time(records: Iterable[Sent]) -> list[Sent]:
    """Returns the records in the order in which partitions advance together, in whatever order they are read here."""
    return [sent for sent, _ in sorted(with_stream_time(records), key=lambda pair: pair[1])]
