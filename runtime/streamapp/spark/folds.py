# SPDX-License-Identifier: Apache-2.0
"""Groups whose records are taken one after the other, in a task: what comes to them, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from streamapp import operations as o
from streamapp.expressions import read_expression
from streamapp.operations.group_checks import FOLDED
from streamapp.spark.cogroups import aggregates_of
from streamapp.spark.flow import DELETED, EVENT_TIME, Flow, all_null, column, hidden
from streamapp.spark.guard import expression, require_allowed
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
    if node.reduce:
        update = update_of(node, flow)
        require_allowed(update)
        frame = TaskRows(flow.frame.sparkSession).of(_folded_schema(flow, update))
        values = {name: F.col(FOLDED)[name] for name, _ in node.reduce}
        time = F.col(FOLDED)[EVENT_TIME]
    else:
        frame = (
            flow.scope().groupBy(*keys.values()).agg(*aggregates_of(node), F.max(column(EVENT_TIME)).alias("__latest"))
        )
        values = {name: column(f"__result_{i}") for i, (name, _) in enumerate(node.columns)}
        time = column("__latest")
    key = tuple((name, f"__key_{i}") for i, name in enumerate(keys))
    rows = frame.select(*columns_of_groups(keys, values, time))
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


def update_of(node: o.Aggregate, flow: Flow) -> DataFrame:
    """Over what the records of a group have come to so far, null at first, and the next record: what they come to then.

    The first record is what it begins with. A column keeps the type that it has in the records.
    """
    schema = flow.schema()
    types = {field.name.lower(): field.dataType for field in schema}
    kept = [StructField(name, types[name.lower()]) for name, _ in node.reduce]
    so_far = StructType([*kept, StructField(EVENT_TIME, types[EVENT_TIME])])
    both = TaskRows(flow.frame.sparkSession).of(StructType([StructField(FOLDED, so_far), *schema.fields]))
    first = F.struct(*(column(field.name).alias(field.name) for field in so_far))
    latest = F.greatest(F.col(FOLDED)[EVENT_TIME], column(EVENT_TIME)).alias(EVENT_TIME)
    following = F.struct(*(expression(sql).cast(types[name.lower()]).alias(name) for name, sql in node.reduce), latest)
    value = F.when(column(FOLDED).isNull(), first).otherwise(following)
    return replace(flow, frame=both).scope().select(value.alias(FOLDED))


def fold_key(flow: Flow, rows: TaskRows) -> DataFrame:
    """The group of a record."""
    return rows.of(flow.schema()).select(*(column(physical) for _, physical in flow.key))


def _folded_schema(flow: Flow, update: DataFrame) -> StructType:
    schema = flow.schema()
    return StructType([*(schema[physical] for _, physical in flow.key), *update.schema.fields])


def answers_of(node: o.Aggregate, flow: Flow, rows: TaskRows) -> DataFrame:
    """Of a group's row: what a question is answered with."""
    return rows.of(flow.schema()).select(
        *(column(physical).alias(f"__key_{i}") for i, (_, physical) in enumerate(flow.key)),
        *(column(name).alias(f"__result_{i}") for i, (name, _) in enumerate(node.values)),
    )
