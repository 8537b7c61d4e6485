# SPDX-License-Identifier: Apache-2.0
"""The results that windows must have, by the rules of event time alone: epochs, clock and speed have no part in it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Event = tuple[str, int]
"""A key, and an event time in ms."""


def disordered(seed: int, partition: int, records: int, start: int, step: int, spread: int) -> list[Event]:
    """Events of one partition: times rise by `step` ms a record, and fall back by up to `spread` ms now and then."""
    rng = random.Random(f"{seed}/{partition}")
    return [
        (rng.choice("abcde"), start + i * step - (rng.randrange(spread) if rng.random() < 0.3 else 0))
        for i in range(records)
    ]


Span = tuple[str, int, int]
"""A key, and the event times of the first and the last record of a session."""


@dataclass
class SessionModel:
    """Counts in sessions with gaps of at most `gap` ms. Each partition has keys of its own."""

    gap: int
    grace: int
    counts: dict[tuple[int, Span], int] = field(default_factory=dict)
    """Counts by partition and session."""
    late: int = 0
    reached: dict[int, int] = field(default_factory=dict)
    """Stream time by partition."""

    def read(self, partitions: Mapping[int, Sequence[Event]]) -> None:
        for partition, events in partitions.items():
            for key, at in events:
                self._read(partition, f"{key}{partition}", at)

    def _read(self, partition: int, key: str, at: int) -> None:
        now = self.reached[partition] = max(at, self.reached.get(partition, at))
        near = [
            (p, (k, start, end))
            for p, (k, start, end) in self.counts
            if k == key and start - self.gap <= at <= end + self.gap and not self.over(end, now)
        ]
        if not near and self.over(at, now):
            self.late += 1
            return
        times = [at, *(time for _, (_, *span) in near for time in span)]
        self.counts[partition, (key, min(times), max(times))] = 1 + sum(self.counts.pop(session) for session in near)

    def over(self, end: int, now: int) -> bool:
        return end + self.gap + self.grace < now

    @property
    def all(self) -> dict[Span, int]:
        return {span: n for (_, span), n in self.counts.items()}

    @property
    def closed(self) -> dict[Span, int]:
        """The sessions that are over for every partition."""
        slowest = min(self.reached.values())
        return {span: n for span, n in self.all.items() if self.over(span[2], slowest)}


@dataclass
class SlidingModel:
    """Counts in sliding windows of `size` ms, as Kafka Streams defines them. Each partition has keys of its own."""

    size: int
    grace: int
    records: dict[tuple[int, str], list[tuple[int, int]]] = field(default_factory=dict)
    """Event times by partition and key, each with the earliest end of a window that the record is not late for."""
    late: int = 0
    reached: dict[int, int] = field(default_factory=dict)
    """Stream time by partition."""

    def read(self, partitions: Mapping[int, Sequence[Event]]) -> None:
        for partition, events in partitions.items():
            for key, at in events:
                now = self.reached[partition] = max(at, self.reached.get(partition, at))
                if at + self.size + self.grace < now:
                    self.late += 1
                else:
                    of_key = self.records.setdefault((partition, f"{key}{partition}"), [])
                    of_key.append((at, max(at, now - self.grace)))

    @property
    def all(self) -> dict[Span, int]:
        found: dict[Span, int] = {}
        for (_, key), records in self.records.items():
            ending = {(at - self.size, at) for at, since in records if since == at}
            behind = {(at + 1, at + 1 + self.size) for at, _ in records}
            for start, end in ending | behind:
                count = sum(start <= at <= end and since <= end for at, since in records)
                found |= {(key, start, end): count} if count else {}
        return found

    @property
    def closed(self) -> dict[Span, int]:
        """The windows that are over for every partition."""
        slowest = min(self.reached.values())
        return {span: n for span, n in self.all.items() if span[2] + self.grace < slowest}


@dataclass
class Model:
    """Counts in windows of `size` ms, one every `advance` ms, by their definition."""

    size: int
    advance: int
    grace: int
    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Counts by key and start of the window."""
    late: int = 0
    """Pairs of a record and a window that was over for it."""
    reached: dict[int, int] = field(default_factory=dict)
    """Stream time by partition."""

    def read(self, partitions: Mapping[int, Sequence[Event]]) -> None:
        for partition, events in partitions.items():
            for key, at in events:
                now = self.reached[partition] = max(at, self.reached.get(partition, at))
                for start in self.starts(at):
                    if start + self.size + self.grace <= now:
                        self.late += 1
                    else:
                        self.counts[key, start] += 1

    def starts(self, at: int) -> range:
        """The starts of the windows that contain a record of that time."""
        return range(at - at % self.advance - self.size + self.advance, at + 1, self.advance)

    @property
    def closed(self) -> dict[tuple[str, int], int]:
        """The windows that are over for every partition."""
        slowest = min(self.reached.values())
        return {w: n for w, n in self.counts.items() if w[1] + self.size + self.grace <= slowest}


@dataclass
class FoldModel(Model):
    """The same windows, with the offsets of their records folded in their order. Each partition has keys of its own."""

    read_of: Counter[int] = field(default_factory=Counter)
    """The number of records of each partition that were read."""

    def read(self, partitions: Mapping[int, Sequence[Event]]) -> None:
        for partition, events in partitions.items():
            for key, at in events:
                offset = self.read_of[partition]
                self.read_of[partition] += 1
                now = self.reached[partition] = max(at, self.reached.get(partition, at))
                for start in self.starts(at):
                    window = f"{key}{partition}", start
                    if start + self.size + self.grace <= now:
                        self.late += 1
                    elif window in self.counts:
                        self.counts[window] = (self.counts[window] * 31 + offset) % 1_000_003
                    else:
                        self.counts[window] = offset
