# SPDX-License-Identifier: Apache-2.0
"""Windows that records make, sessions and sliding ones, as a DataFrame."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from streamapp import operations as o
from streamapp.spark.aggregates import aggregates_of
from streamapp.spark.flow import DELETED, EVENT_TIME, PLACE, STREAM_TIME, Flow, column
from streamapp.spark.late import RECORD, beside_late, late_record

_RULES = {"session": ("Sessions", "gap"), "sliding": ("Slides", "size")}
"""What the operator calls each kind, and its size (WindowRule.scala)."""


def record_windows(node: o.Aggregate, window: o.Window, flow: Flow, by: Mapping[str, str]) -> Flow:
    """The flow of what becomes of a node's windows; in a struct beside RECORD where late records go to a topic.

    Args:
        flow: the rows that take part, with STREAM_TIME.
        by: the group columns' names, and the physical columns behind them.
    """
    rows, late = flow.frame, []
    if node.late is not None:
        lasting = window.size_ms * 1000 if window.kind == "sliding" else 0
        last = F.timestamp_micros(F.unix_micros(column(EVENT_TIME)) + F.lit(lasting))
        record = late_record(node, flow, column(EVENT_TIME), last)
        rows, late = rows.withColumn(RECORD, record), [RECORD]
    results = {name: f"__result_{i}" for i, (name, _) in enumerate(node.values)}
    order = (STREAM_TIME, PLACE) if node.needs_order else (STREAM_TIME,)
    columns_by = map(column, (EVENT_TIME, *order, *by.values(), *late))
    grouped = rows.groupBy(*columns_by).agg(*aggregates_of(node, replace(flow, frame=rows)))
    kind, size = _RULES[window.kind]
    rule = {
        "kind": kind,
        size: window.size_ms * 1000,
        "grace": node.grace_ms * 1000,
        "retention": node.retention_ms * 1000,
        "isFinal": node.emit == "final",
    }
    ours: Any = rows.sparkSession._jvm.org.apache.spark.sql.streamapp.keyed.RecordWindows  # type: ignore[union-attr]
    found = ClassicDataFrame(ours.of(grouped._jdf, len(order), len(by), len(late), json.dumps(rule)), rows.sparkSession)
    seen = found.observe(f"late:{node.name}", F.count_if(column("__late")).alias("late"))
    keys = {name: column(physical) for name, physical in by.items()}
    keys |= {"window_start": column("__start"), "window_end": column("__end")}
    key = tuple((name, f"__key_{i}") for i, name in enumerate(keys))
    values = {name: column(physical) for name, physical in results.items()}
    columns = (
        column("__gone").alias(DELETED),
        column("__latest").alias(EVENT_TIME),
        *(keys[name].alias(physical) for name, physical in key),
        *(value.alias(name) for name, value in (keys | values).items()),
    )
    if node.late is None:
        frame, packed = seen.filter(~column("__late")).select(*columns), None
    else:
        frame, packed = beside_late(seen, column("__late"), columns)
    return Flow(frame, (*keys, *values), ("timestamp",), key, table=True, packed=packed)
