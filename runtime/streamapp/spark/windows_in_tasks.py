# SPDX-License-Identifier: Apache-2.0
"""Windows that a task keeps beside the other nodes of its key, over given rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, TimestampType

from streamapp import operations as o
from streamapp.spark.flow import Flow, column
from streamapp.spark.grouped import WINDOW, table_of_groups, windows_of
from streamapp.spark.grouping import Grouping
from streamapp.spark.late import late_rows
from streamapp.spark.record_windows import table_of_windows, windows_found
from streamapp.spark.tables import TaskRows

_SPAN = StructType([StructField("start", TimestampType()), StructField("end", TimestampType())])


def windowed(node: o.Aggregate, window: o.Window, place: int, given: Flow, rows: TaskRows) -> tuple[int, Flow]:
    """Adds a step with the windows of a `groupBy`. Returns its number, and the table.

    Args:
        place: the step whose rows it takes.
        given: these rows.
    """
    late = late_rows(node, given, rows)
    if window.of_records:
        table, found, answers = _of_records(node, window, given, rows)
        return rows.task.recordWindowed(place, node.store, found._jdf, table.frame._jdf, late, answers._jdf), table
    table, answers = _of_times(node, window, given, rows)
    settings = windows_of(node, window)
    return rows.task.windowed(place, node.store, table.frame._jdf, settings, late, answers._jdf), table


def table_of(node: o.Aggregate, window: o.Window, given: Flow, rows: TaskRows) -> Flow:
    """The table of `windowed`, without a step."""
    keeps = _of_records if window.of_records else _of_times
    return keeps(node, window, given, rows)[0]


def _of_times(node: o.Aggregate, window: o.Window, given: Flow, rows: TaskRows) -> tuple[Flow, DataFrame]:
    row = rows.of(StructType([*given.schema().fields, StructField(WINDOW, _SPAN)]))
    grouping = Grouping.of(node, replace(given, frame=row))
    counted = grouping.flow.frame.groupBy(WINDOW, *grouping.groups).agg(*grouping.results())
    table = table_of_groups(grouping, counted)
    *groups, start, end = (physical for _, physical in table.key)
    values = [name for name, _ in node.values]
    return table, _answers(rows.of(table.schema()), (start, end), groups, values)


def _of_records(node: o.Aggregate, window: o.Window, given: Flow, rows: TaskRows) -> tuple[Flow, DataFrame, DataFrame]:
    grouping = Grouping.of(node, replace(given, frame=rows.timed(given.schema())))
    found = windows_found(grouping, window)
    types = {field.name: field for field in found.schema}
    groups, values = list(grouping.by.values()), [f"__result_{i}" for i in range(len(node.values))]
    shown = rows.of(StructType([*_SPAN, *(types[name] for name in (*groups, *values))]))
    table = table_of_windows(grouping, rows.of(found.schema))
    return table, found, _answers(shown, _SPAN.names, groups, values)


def _answers(shown: DataFrame, span: Sequence[str], groups: Sequence[str], values: Sequence[str]) -> DataFrame:
    """The columns of an answer to a question, with the window before the group."""
    window = F.struct(*(column(name).alias(end) for name, end in zip(span, _SPAN.names, strict=True)))
    return shown.select(
        window.alias("__key_0"),
        *(column(name).alias(f"__key_{i}") for i, name in enumerate(groups, 1)),
        *(column(name).alias(f"__result_{i}") for i, name in enumerate(values)),
    )
