# SPDX-License-Identifier: Apache-2.0
"""The results that a join of two streams must have, by the rules of event time alone: epochs and speed have no part in
it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lib.windows import Event

Result = tuple[str, int | None, int | None]
"""A key, and the numbers of the left and the right record."""


@dataclass(frozen=True)
class Row:
    """A record that was not late."""

    key: str
    at: int
    number: int
    read_at: int
    """The stream time of its partition then."""


@dataclass
class Side:
    """One of the two streams; `earlier` and `later` say where the other's records may be, in ms."""

    earlier: int
    later: int
    keeps: bool
    grace: int
    rows: list[Row] = field(default_factory=list)
    late: int = 0
    reached: dict[int, int] = field(default_factory=dict)
    """Stream time by partition."""

    def read(self, partitions: Mapping[int, Sequence[tuple[Event, int]]]) -> None:
        for partition, events in partitions.items():
            for (key, at), number in events:
                now = self.reached[partition] = max(at, self.reached.get(partition, at))
                if self.last_moment(at) < now:
                    self.late += 1
                else:
                    self.rows.append(Row(key, at, number, now))

    def last_moment(self, at: int) -> int:
        return at + self.later + self.grace

    def may_meet(self, mine: Row, other: Row) -> bool:
        near = mine.at - self.earlier <= other.at <= mine.at + self.later
        return near and (not self.keeps or other.read_at <= self.last_moment(mine.at))


class Model:
    """Pairs of the records of two streams, and records alone, by their definition."""

    def __init__(self, kind: str, before: int, after: int, grace: int) -> None:
        self.left = Side(before, after, kind in ("left", "outer"), grace)
        self.right = Side(after, before, kind == "outer", grace)

    @property
    def late(self) -> int:
        return self.left.late + self.right.late

    @property
    def results(self) -> Counter[Result]:
        """All results up to the time of the slowest partition."""
        pairs = [
            (one, two)
            for one in self.left.rows
            for two in self.right.rows
            if one.key == two.key and self.left.may_meet(one, two) and self.right.may_meet(two, one)
        ]
        slowest = min((*self.left.reached.values(), *self.right.reached.values()))
        met = ({one for one, _ in pairs}, {two for _, two in pairs})
        alone = [
            [row for row in side.rows if side.keeps and row not in found and side.last_moment(row.at) < slowest]
            for side, found in zip((self.left, self.right), met, strict=True)
        ]
        return Counter[Result](
            [
                *((one.key, one.number, two.number) for one, two in pairs),
                *((one.key, one.number, None) for one in alone[0]),
                *((two.key, None, two.number) for two in alone[1]),
            ]
        )
