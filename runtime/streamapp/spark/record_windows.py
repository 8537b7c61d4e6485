# SPDX-License-Identifier: Apache-2.0
"""Windows that records make (session and sliding windows), as a DataFrame."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from streamapp import operations as o
from streamapp.spark.flow import EVENT_TIME, STREAM_TIME, Flow, column
from streamapp.spark.grouping import Grouping, settings_of
from streamapp.spark.jvm import java_class

_RULES = {"session": ("Sessions", "gap"), "sliding": ("Slides", "size")}
"""The operator's names for each kind, and for its size (WindowRule.scala)."""


def windows_found(grouping: Grouping, window: o.Window) -> DataFrame:
    """The changes of a node's windows (RecordWindows.scala).

    Args:
        grouping: rows with STREAM_TIME.
    """
    rows = grouping.flow.frame
    grouped = rows.groupBy(*map(column, (EVENT_TIME, STREAM_TIME, *grouping.by.values())))
    kind, size = _RULES[window.kind]
    rule = {"kind": kind, size: window.size_ms * 1000, **settings_of(grouping.node)}
    counted = grouped.agg(*grouping.aggregates())._jdf
    return ClassicDataFrame(
        java_class("keyed.RecordWindows").of(counted, len(grouping.by), json.dumps(rule)), rows.sparkSession
    )


def table_of_windows(grouping: Grouping, found: DataFrame) -> Flow:
    """The table of the windows that are found."""
    return grouping.table(found, (column("__start"), column("__end")), gone=column("__gone"))
