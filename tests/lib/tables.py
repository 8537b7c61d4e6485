# SPDX-License-Identifier: Apache-2.0
"""The results that tables and joins with them must have: records in the order of their times, and no epochs."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]
Change = tuple[str, Row | None, int]
"""A key, its new row or None, and the event time in ms."""


def changes(
    seed: int, keys: Sequence[str], count: int, since: int, make: Mapping[str, Sequence[object]]
) -> list[Change]:
    """Upserts and deletions out of order; some delete a row that is not there, some change nothing."""
    rng = random.Random(seed)
    found: list[Change] = []
    for i in range(count):
        row = {name: rng.choice(values) for name, values in make.items()} if rng.random() < 0.75 else None
        found.append((rng.choice(keys), row, since + i * 100 + rng.randrange(-300, 300)))
    return found


@dataclass
class Table:
    """The latest row of each key, and the number of its rows so far."""

    rows: dict[str, Row] = field(default_factory=dict)
    updates: int = 0

    def change(self, key: str, row: Row | None) -> None:
        if row is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = row
            self.updates += 1


Timed = tuple[int, int, int, Change]


def in_time(partitions: Mapping[int, Sequence[Change]], rank: int) -> Iterator[Timed]:
    """The changes, each with the stream time of its partition: a task sees those of an epoch in that order."""
    for partition, found in partitions.items():
        now = 0
        for one in found:
            now = max(now, one[2])
            yield now, rank, partition, one


def joined(kind: str, left: Table, right: Table) -> dict[str, tuple[Row | None, Row | None]]:
    """The rows of two tables with equal keys."""
    keys = {
        "inner": left.rows.keys() & right.rows.keys(),
        "left": left.rows.keys(),
        "outer": left.rows.keys() | right.rows.keys(),
    }[kind]
    return {key: (left.rows.get(key), right.rows.get(key)) for key in keys}


def grouped(rows: Sequence[Row], by: str, number: str, seen: set[Any]) -> dict[Any, Row]:
    """Count, sum and mean by group; a group that has lost its rows stays, with the aggregates of no rows.

    Args:
        seen: all groups so far; those of the rows are added.
    """
    seen.update(row[by] for row in rows if row[by] is not None)
    found: dict[Any, Row] = {}
    for group in seen:
        numbers = [row[number] for row in rows if row[by] == group]
        there = [n for n in numbers if n is not None]
        total = sum(there) if there else None
        found[group] = {
            "many": len(numbers),
            "numbers": len(there),
            "total": total,
            "mean": None if total is None else total / len(there),
        }
    return found
