# SPDX-License-Identifier: Apache-2.0
"""Windows that records make, sessions and sliding ones, as a DataFrame."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from streamapp import operations as o
from streamapp.spark.flow import DELETED, EVENT_TIME, STREAM_TIME, Flow, column
from streamapp.spark.guard import expression

_RULES = {"session": ("Sessions", "gap"), "sliding": ("Slides", "size")}
"""What the operator calls each kind, and its size (WindowRule.scala)."""


def record_windows(node: o.Aggregate, window: o.Window, rows: DataFrame, by: Mapping[str, str]) -> Flow:
    """The flow of what becomes of a node's windows.

    Args:
        rows: those that take part, with STREAM_TIME.
        by: the group columns' names, and the physical columns behind them.
    """
    results = {name: f"__result_{i}" for i, (name, _) in enumerate(node.columns)}
    computed = [expression(sql).alias(results[name]) for name, sql in node.columns]
    grouped = rows.groupBy(*map(column, (EVENT_TIME, STREAM_TIME, *by.values()))).agg(*computed)
    kind, size = _RULES[window.kind]
    rule = {
        "kind": kind,
        size: window.size_ms * 1000,
        "grace": node.grace_ms * 1000,
        "retention": node.retention_ms * 1000,
        "isFinal": node.emit == "final",
    }
    ours: Any = rows.sparkSession._jvm.org.apache.spark.sql.streamapp.keyed.RecordWindows  # type: ignore[union-attr]
    found = ClassicDataFrame(ours.of(grouped._jdf, len(by), json.dumps(rule)), rows.sparkSession)
    seen = found.observe(f"late:{node.name}", F.count_if(column("__late")).alias("late")).filter(~column("__late"))
    keys = {name: column(physical) for name, physical in by.items()}
    keys |= {"window_start": column("__start"), "window_end": column("__end")}
    key = tuple((name, f"__key_{i}") for i, name in enumerate(keys))
    values = {name: column(physical) for name, physical in results.items()}
    frame = seen.select(
        column("__gone").alias(DELETED),
        column("__latest").alias(EVENT_TIME),
        *(keys[name].alias(physical) for name, physical in key),
        *(value.alias(name) for name, value in (keys | values).items()),
    )
    return Flow(frame, (*keys, *values), ("timestamp",), key, table=True)
