# SPDX-License-Identifier: Apache-2.0
"""Groups whose records a task takes one after the other: their records, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from streamapp import operations as o
from streamapp.expressions import read_expression
from streamapp.spark.aggregates import aggregates_of
from streamapp.spark.flow import DELETED, EVENT_TIME, SIGN, Flow, all_null, column, hidden
from streamapp.spark.guard import expression
from streamapp.spark.records import PLACE_FIELDS
from streamapp.spark.tables import TaskRows

OWN = "__own_"
"""The prefix of the columns of a table's key, where its rows have the group as their key."""


def entering(node: o.Aggregate, flow: Flow) -> Flow:
    """The records with their group as their key, and only with the columns that are aggregated."""
    key = tuple((name, f"__key_{i}") for i, (name, _) in enumerate(node.by))
    used = {struct.lower() for _, struct in node.within} or {*node.aggregated_columns}
    columns = tuple(
        name for name, physical in flow.visible() if name.lower() in used and physical != hidden("timestamp")
    )
    computed = {
        physical: flow.null_in_other_branches(expression(sql))
        for (_, physical), (_, sql) in zip(key, node.by, strict=True)
    }
    if node.keeps_rows:
        own = {f"{OWN}{i}": flow.null_in_other_branches(column(physical)) for i, (_, physical) in enumerate(flow.key)}
        columns, computed = (*columns, *own), computed | own
    frame = flow.scope().withColumns(computed)
    if flow.guard is None:
        frame = frame.filter(~column(DELETED) & ~all_null(column(physical) for _, physical in key))
    return replace(flow, columns=columns, fields=("timestamp",), key=key).selected_from(frame)


def entering_windows(node: o.Aggregate, flow: Flow) -> Flow:
    """The records with the columns that they are shuffled by, without any that windows and late records do not use."""
    texts = [text for _, text in (*node.by, *node.values)]
    used = {parts[0].lower() for text in texts for parts in read_expression(text).columns}
    used |= {name.lower() for name in node.reduced}
    columns = flow.columns
    if node.late is None and not node.within:
        columns = tuple(name for name in columns if name.lower() in used)
    kept = {"timestamp", *(PLACE_FIELDS if node.late is not None else ())} | used
    by = {f"__by_{i}": flow.null_in_other_branches(expression(sql)) for i, (_, sql) in enumerate(node.by)}
    frame = flow.scope().withColumns(by)
    if flow.guard is None:
        frame = frame.filter(~column(DELETED) & ~all_null(map(column, by)))
    fields = tuple(field for field in flow.fields if field in kept)
    return replace(flow, columns=columns, fields=fields, by=tuple(by)).selected_from(frame)


def rows_kept(flow: Flow, rows: TaskRows) -> tuple[DataFrame, DataFrame, DataFrame]:
    """How the rows of a table are kept for their groups: the key and the value, over a row; and the row, over both.

    The order of the columns follows from the fingerprint: the group, the table's key, then the rest by name.
    """
    schema = flow.schema()
    own = [name for name in flow.columns if name.startswith(OWN)]
    values = sorted((name for name in flow.columns if name not in own), key=str.lower)
    given = rows.of(schema)
    key = given.select(*(column(physical) for _, physical in flow.key), *map(column, own))
    value = given.select(*map(column, (EVENT_TIME, *values)))
    both = rows.of(StructType([*key.schema.fields, *value.schema.fields]))
    same = {DELETED: F.lit(False), SIGN: F.lit(1)}
    row = both.select(*(same.get(name, column(name)).alias(name) for name in schema.names))
    return key, value, row


def folded(node: o.Aggregate, flow: Flow) -> Flow:
    """The table of the groups, over records with their group as their key."""
    keys = {name: column(physical) for name, physical in flow.key}
    latest = F.max(column(EVENT_TIME)).alias("__latest")
    frame = flow.scope().groupBy(*keys.values()).agg(*aggregates_of(node, flow), latest)
    values = {name: column(f"__result_{i}") for i, (name, _) in enumerate(node.values)}
    key = tuple((name, f"__key_{i}") for i, name in enumerate(keys))
    rows = frame.select(*columns_of_groups(keys, values, column("__latest")))
    return Flow(rows, (*keys, *values), ("timestamp",), key, table=True)


def columns_of_groups(
    keys: Mapping[str, Column], values: Mapping[str, Column], time: Column, gone: Column | None = None
) -> tuple[Column, ...]:
    """The columns of a table whose rows are groups.

    Args:
        time: the event time of the group's latest record.
        gone: whether the row says that the group does not exist any more.
    """
    return (
        (F.lit(False) if gone is None else gone).alias(DELETED),
        time.alias(EVENT_TIME),
        *(value.alias(f"__key_{i}") for i, value in enumerate(keys.values())),
        *(value.alias(name) for name, value in {**keys, **values}.items()),
    )


def answers_of(node: o.Aggregate, flow: Flow, rows: TaskRows) -> DataFrame:
    """The columns of an answer to a question, over a group's row."""
    return rows.of(flow.schema()).select(
        *(column(physical).alias(f"__key_{i}") for i, (_, physical) in enumerate(flow.key)),
        *(column(name).alias(f"__result_{i}") for i, (name, _) in enumerate(node.values)),
    )
