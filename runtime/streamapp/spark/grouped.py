# SPDX-License-Identifier: Apache-2.0
"""`groupBy` as an aggregation of Spark's, whose state one of our operators keeps."""

from __future__ import annotations

import json
from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from streamapp import operations as o
from streamapp.spark.aggregates import aggregates_of, in_order
from streamapp.spark.flow import DELETED, EVENT_TIME, STREAM_TIME, Flow, all_null, column
from streamapp.spark.folds import columns_of_groups
from streamapp.spark.guard import expression
from streamapp.spark.late import RECORD, beside_late, late_record
from streamapp.spark.record_windows import record_windows
from streamapp.spark.tables import of_changes

_WINDOWS = "streamapp.windows"
"""In a column's metadata: what the operator that keeps the windows has to know (GroupKeys.scala)."""

_LATE = "streamapp.late"
"""In a column's metadata: it has late records (GroupKeys.scala)."""


def grouped(node: o.Aggregate, flow: Flow) -> Flow:
    """A table: for each group of rows, and each of its windows, what they come to."""
    by = {name: f"__group_{i}" for i, (name, _) in enumerate(node.by)}
    scope = flow.scope().withColumns({by[name]: expression(sql) for name, sql in node.by})
    # As in Kafka Streams, a record without key or without value takes no part.
    rows = scope.filter(~column(DELETED) & ~all_null(map(column, by.values())))
    given = replace(flow, frame=rows)
    groups = [column(physical) for physical in by.values()]
    keys = {name: column(physical) for name, physical in by.items()}
    if node.window is not None and node.window.of_records:
        return record_windows(node, node.window, given, by)
    results = [*aggregates_of(node, given), F.max(column(EVENT_TIME)).alias("__latest")]
    if node.window is not None:
        late = () if node.late is None else (RECORD,)
        placed = _in_windows(node, node.window, given)
        group = ("__window", *groups, *late)
        if node.needs_order:
            counted = in_order(placed, given.order_time, group, results)
        else:
            counted = placed.groupBy(*group).agg(*results)
        keys |= {"window_start": F.col("__window.start"), "window_end": F.col("__window.end")}
    else:
        counted = rows.groupBy(*groups).agg(*results)
    if flow.signed:
        counted = of_changes(counted)
    counted = _needing(counted, [column(f"__result_{i}") for i in range(len(node.values))] + [column("__latest")])
    values = {name: column(f"__result_{i}") for i, (name, _) in enumerate(node.values)}
    key = tuple((name, f"__key_{i}") for i, name in enumerate(keys))
    columns = columns_of_groups(keys, values, column("__latest"))
    if node.late is None:
        frame, packed = counted.select(*columns), None
    else:
        frame, packed = beside_late(counted, column(RECORD).isNotNull(), columns)
    return Flow(frame, (*keys, *values), ("timestamp",), key, table=True, packed=packed)


def _in_windows(node: o.Aggregate, window: o.Window, flow: Flow) -> DataFrame:
    """Each row once for each of its windows, in `__window`. Of those that are over for it only a late record is
    left, in RECORD, where that is to go to a topic."""
    size, advance, grace = (ms * 1000 for ms in (window.size_ms, window.advance_ms, node.grace_ms))
    windows = json.dumps(
        {"size": size, "grace": grace, "retention": node.retention_ms * 1000, "isFinal": node.emit == "final"}
    )
    spans = F.window(column(EVENT_TIME), f"{size} microseconds", f"{advance} microseconds")
    placed = flow.frame.withColumn("__window", spans)
    over = F.unix_micros(F.col("__window.end")) + F.lit(grace) <= column(STREAM_TIME)
    seen = placed.observe(f"late:{node.name}", F.count_if(over).alias("late"))
    if node.late is None:
        seen = seen.filter(~over)
    else:
        record = late_record(node, flow, F.col("__window.start"), F.col("__window.end"))
        seen = seen.withColumn(RECORD, F.when(over, record)).withMetadata(RECORD, {_LATE: True})
    return seen.withMetadata("__window", {_WINDOWS: windows})


def _needing(frame: DataFrame, columns: list[Column]) -> DataFrame:
    """Behind a stateful operator: its state holds all these columns, whichever of them a later node uses."""
    return frame.filter(F.call_function("streamapp_needs", *columns))
