# SPDX-License-Identifier: Apache-2.0
"""Groups whose records are taken one after the other, in a task: what comes to them, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from streamapp import operations as o
from streamapp.expressions import read_expression
from streamapp.spark.aggregates import aggregates_of
from streamapp.spark.flow import DELETED, EVENT_TIME, Flow, all_null, column, hidden
from streamapp.spark.guard import expression
from streamapp.spark.tables import TaskRows


def entering(node: o.Aggregate, flow: Flow) -> Flow:
    """The records with their group as their key, and of their columns those that are aggregated."""
    key = tuple((name, f"__key_{i}") for i, (name, _) in enumerate(node.by))
    used = {parts[0].lower() for _, text in (*node.columns, *node.reduce) for parts in read_expression(text).columns}
    used = {struct.lower() for _, struct in node.within} or used
    used.update(name.lower() for name, _ in node.reduce)
    columns = tuple(
        name for name, physical in flow.visible() if name.lower() in used and physical != hidden("timestamp")
    )
    computed = {physical: flow.only_mine(expression(sql)) for (_, physical), (_, sql) in zip(key, node.by, strict=True)}
    frame = flow.scope().withColumns(computed)
    if flow.guard is None:
        frame = frame.filter(~column(DELETED) & ~all_null(map(column, computed)))
    return replace(flow, columns=columns, fields=("timestamp",), key=key).tidy(frame)


def folded(node: o.Aggregate, flow: Flow) -> Flow:
    """The table of the groups, over records with their group as their key."""
    keys = {name: column(physical) for name, physical in flow.key}
    latest = F.max(column(EVENT_TIME)).alias("__latest")
    frame = flow.scope().groupBy(*keys.values()).agg(*aggregates_of(node, flow), latest)
    values = {name: column(f"__result_{i}") for i, (name, _) in enumerate(node.values)}
    key = tuple((name, f"__key_{i}") for i, name in enumerate(keys))
    rows = frame.select(*columns_of_groups(keys, values, column("__latest")))
    return Flow(rows, (*keys, *values), ("timestamp",), key, table=True)


def columns_of_groups(keys: Mapping[str, Column], values: Mapping[str, Column], time: Column) -> tuple[Column, ...]:
    """The columns of a table whose rows are groups.

    Args:
        time: the event time of the group's latest record.
    """
    return (
        F.lit(False).alias(DELETED),
        time.alias(EVENT_TIME),
        *(value.alias(f"__key_{i}") for i, value in enumerate(keys.values())),
        *(value.alias(name) for name, value in {**keys, **values}.items()),
    )


def answers_of(node: o.Aggregate, flow: Flow, rows: TaskRows) -> DataFrame:
    """Of a group's row: what a question is answered with."""
    return rows.of(flow.schema()).select(
        *(column(physical).alias(f"__key_{i}") for i, (_, physical) in enumerate(flow.key)),
        *(column(name).alias(f"__result_{i}") for i, (name, _) in enumerate(node.values)),
    )
