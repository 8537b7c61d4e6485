# SPDX-License-Identifier: Apache-2.0
"""The common parts of joins: the columns that rows meet by, and the columns of results."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from streamapp import operations as o
from streamapp.errors import ManifestError, Problem
from streamapp.spark.flow import DELETED, EVENT_TIME, Flow
from streamapp.spark.guard import expression


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
    """The result's rows, out of the frame of both sides. A column of the key takes its value from the key, whichever
    side has it.

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


Keys = list[tuple[str, str]]
"""Names, and the physical columns behind them."""


def keys_of(node: o.Join | o.TableJoin, left: Flow, right: Flow) -> tuple[Keys, Keys]:
    """The columns that the rows of both sides meet by."""
    ours, theirs = chosen(left, node.by), chosen(right, node.match)
    if len(ours) != len(theirs):
        message = f"joins {len(ours)} columns to the {len(theirs)} key columns of '{node.right}'"
        fix = f"name as many columns as '{node.right}' has in its key"
        raise ManifestError((Problem(node.owner, "by", ", ".join(name for name, _ in ours), message, fix),))
    for (name, here), (other, there) in zip(ours, theirs, strict=True):
        left_type, right_type = left.type_of(here), right.type_of(there)
        if left_type != right_type:
            message = (
                f"`{name}` of '{node.aliases[0]}' is {left_type.simpleString()}, `{other}` of '{node.aliases[1]}' is "
                f"{right_type.simpleString()}: keys of different types never meet"
            )
            fix = f"cast one of them, e.g. with: {{{name}: cast({name} as {right_type.simpleString()})}}"
            raise ManifestError((Problem(node.owner, "by", name, message, fix),))
    return ours, theirs


def chosen(flow: Flow, names: tuple[str, ...]) -> Keys:
    """These columns, or those of the key where there are none."""
    visible = {name.lower(): physical for name, physical in flow.visible()}
    return [(name, visible.get(name.lower(), name)) for name in names] or list(flow.key)
