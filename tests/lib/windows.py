# SPDX-License-Identifier: Apache-2.0
"""What windows must come to, by the rules of event time alone: no epoch, no clock and no speed has a part in it."""

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


@dataclass
class Model:
    """Counts in windows of `size` ms, one every `advance` ms, as their definition has them."""

    size: int
    advance: int
    grace: int
    counts: Counter[tuple[str, int]] = field(default_factory=Counter)
    """By key and start of the window."""
    late: int = 0
    """Pairs of a record and a window that was over for it."""
    reached: dict[int, int] = field(default_factory=dict)
    """Stream time by partition."""

    def read(self, partitions: Mapping[int, Sequence[Event]]) -> None:
        for partition, events in partitions.items():
            for key, at in events:
                now = self.reached[partition] = max(at, self.reached.get(partition, at))
                first = at - at % self.advance - self.size + self.advance
                for start in range(first, at + 1, self.advance):
                    if start + self.size + self.grace <= now:
                        self.late += 1
                    else:
                        self.counts[key, start] += 1

    @property
    def closed(self) -> dict[tuple[str, int], int]:
        """The windows that are over for every partition."""
        slowest = min(self.reached.values())
        return {w: n for w, n in self.counts.items() if w[1] + self.size + self.grace <= slowest}
