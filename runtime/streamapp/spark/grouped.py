# SPDX-License-Identifier: Apache-2.0
"""`groupBy` as a Spark aggregation whose state one of our operators keeps."""

from __future__ import annotations

import json

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from streamapp import operations as o
from streamapp.spark.flow import EVENT_TIME, STREAM_TIME, Flow, column
from streamapp.spark.grouping import LATEST, Grouping, settings_of
from streamapp.spark.late import RECORD, late_record
from streamapp.spark.tables import of_changes

WINDOW = "__window"
"""The column with a group's window: a struct of `start` and `end`."""
_WINDOWS = "streamapp.windows"
"""The name in a column's metadata of the settings of the operator that keeps the windows (GroupKeys.scala)."""

_LATE = "streamapp.late"
"""The name in a column's metadata that says that the column has late records (GroupKeys.scala)."""


def grouped(node: o.Aggregate, flow: Flow) -> Flow:
    """A table with the aggregates of each group of rows, or of each of its windows."""
    grouping = Grouping.of(node, flow)
    results = grouping.results()
    if node.window is None:
        counted = grouping.flow.frame.groupBy(*grouping.groups).agg(*results)
    else:
        placed = _in_windows(node, node.window, grouping.flow)
        late = () if node.late is None else (RECORD,)
        counted = placed.groupBy(WINDOW, *grouping.groups, *late).agg(*results)
    if flow.signed:
        counted = of_changes(counted)
    needed = [*(column(f"__result_{i}") for i in range(len(node.values))), column(LATEST)]
    return table_of_groups(grouping, _needing(counted, needed), late=node.late is not None)


def table_of_groups(grouping: Grouping, counted: DataFrame, *, late: bool = False) -> Flow:
    """The table of the groups that are counted.

    Args:
        late: whether there are late records among them.
    """
    window = None if grouping.node.window is None else (column(WINDOW)["start"], column(WINDOW)["end"])
    return grouping.table(counted, window, late=late)


def windows_of(node: o.Aggregate, window: o.Window) -> str:
    """The settings of the operator that keeps the windows (GroupKeys.scala), as JSON."""
    return json.dumps({"size": window.size_ms * 1000, "advance": window.advance_ms * 1000, **settings_of(node)})


def _in_windows(node: o.Aggregate, window: o.Window, flow: Flow) -> DataFrame:
    """Each row once for each of its windows, in WINDOW. Where a window is over for the row, only a late record is left,
    in RECORD, if late records go to a topic; otherwise nothing."""
    size, advance, grace = (ms * 1000 for ms in (window.size_ms, window.advance_ms, node.grace_ms))
    spans = F.window(column(EVENT_TIME), f"{size} microseconds", f"{advance} microseconds")
    placed = flow.frame.withColumn(WINDOW, spans)
    start, end = column(WINDOW)["start"], column(WINDOW)["end"]
    over = F.unix_micros(end) + F.lit(grace) <= column(STREAM_TIME)
    seen = placed.observe(f"late:{node.name}", F.count_if(over).alias("late"))
    if node.late is None:
        seen = seen.filter(~over)
    else:
        record = late_record(node, flow, start, end)
        seen = seen.withColumn(RECORD, F.when(over, record)).withMetadata(RECORD, {_LATE: True})
    return seen.withMetadata(WINDOW, {_WINDOWS: windows_of(node, window)})


def _needing(frame: DataFrame, columns: list[Column]) -> DataFrame:
    """The frame behind a stateful operator, so that the state holds all these columns, whichever a later node uses."""
    return frame.filter(F.call_function("streamapp_needs", *columns))
