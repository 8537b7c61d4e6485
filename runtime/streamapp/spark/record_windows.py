# SPDX-License-Identifier: Apache-2.0
"""Windows that records make, sessions and sliding ones, as a DataFrame."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from streamapp import operations as o
from streamapp.spark.flow import EVENT_TIME, PLACE, STREAM_TIME, Flow, column
from streamapp.spark.grouping import Grouping
from streamapp.spark.late import RECORD, late_record

_RULES = {"session": ("Sessions", "gap"), "sliding": ("Slides", "size")}
"""What the operator calls each kind, and its size (WindowRule.scala)."""


def record_windows(grouping: Grouping, window: o.Window) -> Flow:
    """The flow of what becomes of a node's windows; in a struct beside RECORD where late records go to a topic.

    Args:
        grouping: rows with STREAM_TIME.
    """
    node = grouping.node
    late: tuple[str, ...] = ()
    if node.late is not None:
        lasting = window.size_ms * 1000 if window.kind == "sliding" else 0
        last = F.timestamp_micros(F.unix_micros(column(EVENT_TIME)) + F.lit(lasting))
        record = late_record(node, grouping.flow, column(EVENT_TIME), last)
        grouping, late = grouping.over(grouping.flow.frame.withColumn(RECORD, record)), (RECORD,)
    order = (STREAM_TIME, PLACE) if node.needs_order else (STREAM_TIME,)
    found = windows_found(grouping, window, order, late)
    seen = found.observe(f"late:{node.name}", F.count_if(column("__late")).alias("late"))
    if not late:
        seen = seen.filter(~column("__late"))
    return table_of_windows(grouping, seen, late=bool(late))


def windows_found(grouping: Grouping, window: o.Window, order: Sequence[str], late: Sequence[str] = ()) -> DataFrame:
    """What becomes of a node's windows (RecordWindows.scala).

    Args:
        order: the columns that say the order of rows: STREAM_TIME is the first.
        late: those that a late record is to give.
    """
    node, rows = grouping.node, grouping.flow.frame
    grouped = rows.groupBy(*map(column, (EVENT_TIME, *order, *grouping.by.values(), *late)))
    kind, size = _RULES[window.kind]
    rule = {
        "kind": kind,
        size: window.size_ms * 1000,
        "grace": node.grace_ms * 1000,
        "retention": node.retention_ms * 1000,
        "isFinal": node.emit == "final",
    }
    ours: Any = rows.sparkSession._jvm.org.apache.spark.sql.streamapp.keyed.RecordWindows  # type: ignore[union-attr]
    counted = grouped.agg(*grouping.aggregates())._jdf
    found = ours.of(counted, len(order), len(grouping.by), len(late), json.dumps(rule))
    return ClassicDataFrame(found, rows.sparkSession)


def table_of_windows(grouping: Grouping, found: DataFrame, *, late: bool = False) -> Flow:
    """The table of the windows that are found.

    Args:
        late: whether there are late records among them.
    """
    return grouping.table(found, (column("__start"), column("__end")), gone=column("__gone"), late=late)
