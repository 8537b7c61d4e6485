# SPDX-License-Identifier: Apache-2.0
"""A join of two streams as a DataFrame: both sides as the state is to keep them, and the pairs' columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from streamapp import operations as o
from streamapp.errors import ManifestError, Problem
from streamapp.operations.joining import SIDES
from streamapp.spark.flow import DELETED, EVENT_TIME, STREAM_TIME, Flow, column, hidden, quoted
from streamapp.spark.guard import expression
from streamapp.spark.late import RECORD, beside_late, late_record

_SIDES = ("__left", "__right")


@dataclass(frozen=True)
class _Side:
    """One side's rows in the frame that both share."""

    alias: str
    keys: tuple[str, ...]
    """The columns that rows meet by."""
    row: Column
    """A struct of what the state keeps of a row; null for the other side's rows."""
    late: Column
    counts: Column
    """Whether the row is a record of this side that is not late."""
    record: Column
    """Of a late one, what goes to the topic for late records; null for others."""

    def __getitem__(self, name: str) -> Column:
        return F.col(f"{quoted(self.alias)}.{quoted(name)}")


def joined(node: o.Join, left: Flow, right: Flow) -> Flow:
    """The flow of the join's results.

    Raises:
        ManifestError: when the keys of both sides cannot meet.
    """
    ours, theirs = keys_of(node, left, right)
    if left.packed is None:
        left, right = _packed(left, right)
    one, two = _side(node, 0, left, ours), _side(node, 1, right, theirs)
    # A result without one of the sides has the key of the other.
    key = {
        name: F.coalesce(one[mine], two[other]) for (name, _), mine, other in zip(ours, one.keys, two.keys, strict=True)
    }
    values = values_of(node, (left, one), (right, two))
    time = F.greatest(one[EVENT_TIME], two[EVENT_TIME])
    pairs = _pairs(node, left.frame, one, two)
    if node.late is None:
        return result_of(pairs, key, values, time)
    result = result_of(pairs, key, values, time, {RECORD: column(RECORD)})
    columns = [column(name) for name in result.frame.columns if name != RECORD]
    frame, packed = beside_late(result.frame, column(RECORD).isNotNull(), columns)
    return replace(result, frame=frame, packed=packed)


class Columns(Protocol):
    """One side's columns in the frame of both."""

    def __getitem__(self, name: str) -> Column: ...


def values_of(node: o.Join | o.TableJoin, left: tuple[Flow, Columns], right: tuple[Flow, Columns]) -> dict[str, Column]:
    """The result's columns by name: those of `select`, or both sides' own."""
    if node.select is not None:
        return {name: expression(sql) for name, sql in node.select}
    return {name: side[name] for flow, side in (left, right) for name in flow.columns}


def result_of(
    frame: DataFrame,
    key: dict[str, Column],
    values: dict[str, Column],
    time: Column,
    more: Mapping[str, Column] = MappingProxyType({}),
) -> Flow:
    """The result's rows, out of the frame of both sides. Columns of the key are the key's, whichever side has them.

    Args:
        more: further columns of the frame.
    """
    of_key = {name.lower(): value for name, value in key.items()}
    named = tuple((name, f"__key_{i}") for i, name in enumerate(key))
    rows = frame.select(
        F.lit(False).alias(DELETED),
        time.alias(EVENT_TIME),
        *(value.alias(name) for name, value in more.items()),
        *(key[name].alias(physical) for name, physical in named),
        *(of_key.get(name.lower(), value).alias(name) for name, value in values.items()),
    )
    return Flow(rows, tuple(values), ("timestamp",), named)


def _packed(left: Flow, right: Flow) -> tuple[Flow, Flow]:
    """Both sides in one frame, each in a struct column of its own."""
    one, two = (
        flow.frame.select(F.struct(*map(column, flow.physical())).alias(side))
        for flow, side in zip((left, right), _SIDES, strict=True)
    )
    frame = one.unionByName(two, allowMissingColumns=True)
    return replace(left, frame=frame, packed=_SIDES[0]), replace(right, frame=frame, packed=_SIDES[1])


Keys = list[tuple[str, str]]
"""Names, and the physical columns behind them."""


def keys_of(node: o.Join | o.TableJoin, left: Flow, right: Flow) -> tuple[Keys, Keys]:
    """What the rows of both sides meet by."""
    ours, theirs = chosen(left, node.by), chosen(right, node.match)
    if len(ours) != len(theirs):
        said = f"joins {len(ours)} columns to the {len(theirs)} key columns of '{node.right}'"
        fix = f"name as many columns as '{node.right}' has in its key"
        raise ManifestError((Problem(node.owner, "by", ", ".join(name for name, _ in ours), said, fix),))
    for (name, here), (other, there) in zip(ours, theirs, strict=True):
        left_type, right_type = left.type_of(here), right.type_of(there)
        if left_type != right_type:
            said = (
                f"`{name}` of '{node.aliases[0]}' is {left_type.simpleString()}, `{other}` of '{node.aliases[1]}' is "
                f"{right_type.simpleString()}: keys of different types never meet"
            )
            fix = f"cast one of them, e.g. with: {{{name}: cast({name} as {right_type.simpleString()})}}"
            raise ManifestError((Problem(node.owner, "by", name, said, fix),))
    return ours, theirs


def chosen(flow: Flow, names: tuple[str, ...]) -> Keys:
    """These columns, or those of the key where there are none."""
    visible = {name.lower(): physical for name, physical in flow.visible()}
    return [(name, visible.get(name.lower(), name)) for name in names] or list(flow.key)


def _side(node: o.Join, at: int, flow: Flow, keys: Keys) -> _Side:
    """The left (0) or the right (1) side.

    A row is late when stream time has passed the last moment at which a row of the other side may come that it could
    meet. What the state keeps is in an order that follows from the fingerprint of the store: keys, then the rest by
    name.
    """
    alias = node.aliases[at]
    earlier_ms, later_ms = (node.before_ms, node.after_ms) if at == 0 else (node.after_ms, node.before_ms)
    assert flow.packed is not None
    mine = column(flow.packed).isNotNull() & ~flow.physically(DELETED)
    last_moment = F.unix_micros(flow.physically(EVENT_TIME)) + F.lit((later_ms + node.grace_ms) * 1000)
    late = last_moment < flow.physically(STREAM_TIME)
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
    struct = F.struct(*(flow.physically(physical).alias(name) for name, physical in fields))
    record = F.lit(None)
    if node.late is not None:
        own = F.unix_micros(flow.physically(EVENT_TIME))
        first, last = (F.timestamp_micros(own + F.lit(ms * 1000)) for ms in (-earlier_ms, later_ms))
        side = {"streamapp.side": F.lit(SIDES[at])}
        record = F.when(mine & late, late_record(node, flow, first, last, side))
    return _Side(alias, key_names, F.when(mine, struct), mine & late, mine & ~late, record)


def _pairs(node: o.Join, frame: DataFrame, left: _Side, right: _Side) -> DataFrame:
    seen = frame.observe(f"late:{node.name}", F.count_if(left.late | right.late).alias("late"))
    taken, late = left.counts | right.counts, []
    if node.late is not None:
        taken, late = taken | left.late | right.late, [F.coalesce(left.record, right.record).alias(RECORD)]
    whole = seen.filter(taken).select(left.row.alias(_SIDES[0]), right.row.alias(_SIDES[1]), *late)
    keys = (
        F.coalesce(column(_SIDES[0])[one], column(_SIDES[1])[two]).alias(f"__key_{i}")
        for i, (one, two) in enumerate(zip(left.keys, right.keys, strict=True))
    )
    sides = [F.when(column(RECORD).isNull(), column(side)).alias(side) if late else column(side) for side in _SIDES]
    rows = whole.select(*keys, *sides, *(column(RECORD) for _ in late))
    pairing = {
        "before": node.before_ms * 1000,
        "after": node.after_ms * 1000,
        "grace": node.grace_ms * 1000,
        "keepsLeft": node.type in ("left", "outer"),
        "keepsRight": node.type == "outer",
    }
    ours: Any = frame.sparkSession._jvm.org.apache.spark.sql.streamapp.keyed.KeyedJoin  # type: ignore[union-attr]
    pairs = ours.of(rows._jdf, json.dumps(pairing), EVENT_TIME, STREAM_TIME, left.alias, right.alias, bool(late))
    return ClassicDataFrame(pairs, frame.sparkSession)
