# SPDX-License-Identifier: Apache-2.0
"""A join of two streams in a task: both sides as the state keeps them, and the pairs' columns, over given rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from streamapp import operations as o
from streamapp.operations.joining import SIDES
from streamapp.spark.flow import EVENT_TIME, STREAM_TIME, Flow, column, hidden
from streamapp.spark.joins import Keys, keys_of, result_of, values_of
from streamapp.spark.late import late_rows
from streamapp.spark.tables import Side, TaskRows


@dataclass(frozen=True)
class _Kept:
    """The part of one side's rows that the state keeps."""

    side: Side
    """The side's columns, as the result has them."""
    keys: tuple[str, ...]
    """The names of the columns that rows meet by."""
    chosen: DataFrame
    """These columns, over a row and its stream time."""
    row: DataFrame
    """The columns that the state keeps, over a row and its stream time."""
    header: Mapping[str, Column]
    """The header that a late record has beside the others."""


def paired(node: o.Join, left: tuple[int, Flow], right: tuple[int, Flow], rows: TaskRows) -> tuple[int, Flow]:
    """Adds a step with the pairs of two streams. Returns its number, and the results.

    Args:
        left, right: the step whose rows come to a side, and these rows.
    """
    one, two, flow = _sides_and_result(node, left[1], right[1], rows)
    sides = (
        rows.task.side(place, kept.chosen._jdf, kept.row._jdf, late_rows(node, given, rows, kept.header))
        for (place, given), kept in ((left, one), (right, two))
    )
    pairing = {
        "before": node.before_ms * 1000,
        "after": node.after_ms * 1000,
        "grace": node.grace_ms * 1000,
        "keepsLeft": node.type in ("left", "outer"),
        "keepsRight": node.type == "outer",
    }
    return rows.task.pairs(*sides, node.store, json.dumps(pairing), flow.frame._jdf, STREAM_TIME), flow


def pairs_of(node: o.Join, left: Flow, right: Flow, rows: TaskRows) -> Flow:
    """The results of `paired`, without a step.

    Raises:
        ManifestError: when the keys of both sides cannot meet.
    """
    return _sides_and_result(node, left, right, rows)[2]


def _sides_and_result(node: o.Join, left: Flow, right: Flow, rows: TaskRows) -> tuple[_Kept, _Kept, Flow]:
    ours, theirs = keys_of(node, left, right)
    one, two = _kept(node, 0, left, ours, rows), _kept(node, 1, right, theirs, rows)
    both = rows.of_both(one.row.schema, one.side.alias, two.row.schema, two.side.alias)
    # A result without one of the sides has the key of the other.
    key = {
        name: F.coalesce(one.side[mine], two.side[other])
        for (name, _), mine, other in zip(ours, one.keys, two.keys, strict=True)
    }
    values = values_of(node, (left, one.side), (right, two.side))
    return one, two, result_of(both, key, values, F.greatest(one.side[EVENT_TIME], two.side[EVENT_TIME]))


def _kept(node: o.Join, at: int, flow: Flow, keys: Keys, rows: TaskRows) -> _Kept:
    """The left (0) or the right (1) side. The fingerprint of the store fixes the order of its columns: keys, then the
    rest by name."""
    alias = node.aliases[at]
    values = {name: name for name in flow.columns}
    values |= {name: physical for name, physical in flow.key if name != "key" and name not in values}
    values |= {f: hidden(f) for f in flow.fields if f not in flow.columns and f"{alias}.{f}".lower() in node.used}
    kept: dict[str, str] = {}
    for i, (name, physical) in enumerate(keys):
        ours = name not in kept and values.get(name, physical) == physical
        kept[name if ours else f"__join_{i}"] = physical
    key_names = tuple(kept)
    kept |= {name: values[name] for name in sorted(values, key=str.lower) if name not in kept}
    times = [EVENT_TIME] if node.type == "inner" else [EVENT_TIME, STREAM_TIME]
    fields = [*((time, time) for time in times), *kept.items()]
    given = rows.timed(flow.schema())
    return _Kept(
        Side(alias),
        key_names,
        given.select(*(column(physical) for _, physical in keys)),
        given.select(*(column(physical).alias(name) for name, physical in fields)),
        {"streamapp.side": F.lit(SIDES[at])},
    )
