# SPDX-License-Identifier: Apache-2.0
"""Windows that a task keeps beside the other nodes of its key, over rows that are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from streamapp import operations as o
from streamapp.spark.flow import STREAM_TIME, Flow, column
from streamapp.spark.grouped import WINDOW, table_of_groups, windows_of
from streamapp.spark.grouping import Grouping
from streamapp.spark.late import RECORD, late_record
from streamapp.spark.record_windows import table_of_windows, windows_found
from streamapp.spark.tables import TaskRows

_SPAN = StructType([StructField("start", TimestampType()), StructField("end", TimestampType())])
_LATE_FOR = StructType([StructField("__start", TimestampType()), StructField("__end", TimestampType())])
_STREAM_TIME = StructField(STREAM_TIME, LongType(), nullable=False)


def windowed(node: o.Aggregate, window: o.Window, place: int, given: Flow, rows: TaskRows) -> tuple[int, Flow]:
    """A step with the windows of a `groupBy`: its number, and the table.

    Args:
        place: the step whose rows it takes.
        given: these rows.
    """
    keeps = _of_records if window.of_records else _of_times
    return keeps(node, window, place, given, rows)


def _of_times(node: o.Aggregate, window: o.Window, place: int, given: Flow, rows: TaskRows) -> tuple[int, Flow]:
    row = rows.of(StructType([*given.schema().fields, StructField(WINDOW, _SPAN)]))
    grouping = Grouping.of(node, replace(given, frame=row))
    counted = grouping.flow.frame.groupBy(WINDOW, *grouping.groups).agg(*grouping.results())
    table = table_of_groups(grouping, counted)
    *groups, start, end = (physical for _, physical in table.key)
    values = [name for name, _ in node.values]
    answers = _answers(rows.of(table.schema()), (start, end), groups, values)
    late = _late_records(node, given, rows)
    return rows.task.windowed(place, node.store, table.frame._jdf, windows_of(node, window), late, answers), table


def _of_records(node: o.Aggregate, window: o.Window, place: int, given: Flow, rows: TaskRows) -> tuple[int, Flow]:
    row = rows.of(StructType([*given.schema().fields, _STREAM_TIME]))
    grouping = Grouping.of(node, replace(given, frame=row))
    found = windows_found(grouping, window, (STREAM_TIME,))  # they come in their order
    table = table_of_windows(grouping, rows.of(found.schema))
    types = {field.name: field for field in found.schema}
    groups, values = list(grouping.by.values()), [f"__result_{i}" for i in range(len(node.values))]
    answers = _answers(
        rows.of(StructType([*_SPAN, *(types[name] for name in (*groups, *values))])), _SPAN.names, groups, values
    )
    late = _late_records(node, given, rows)
    return rows.task.recordWindowed(place, node.store, found._jdf, table.frame._jdf, late, answers), table


def _answers(shown: DataFrame, span: Sequence[str], groups: Sequence[str], values: Sequence[str]) -> JavaObject:
    """What a question is answered with, the window before the group."""
    window = F.struct(*(column(name).alias(end) for name, end in zip(span, _SPAN.names, strict=True)))
    return shown.select(
        window.alias("__key_0"),
        *(column(name).alias(f"__key_{i}") for i, name in enumerate(groups, 1)),
        *(column(name).alias(f"__result_{i}") for i, name in enumerate(values)),
    )._jdf


def _late_records(node: o.Aggregate, given: Flow, rows: TaskRows) -> JavaObject | None:
    """What a late record becomes, where it is written."""
    if node.late is None:
        return None
    row = rows.of(StructType([*given.schema().fields, *_LATE_FOR, _STREAM_TIME]))
    start, end = map(column, _LATE_FOR.names)
    record = late_record(node, replace(given, frame=row), start, end)
    return row.select(record.alias(RECORD)).select(f"{RECORD}.*")._jdf
