# SPDX-License-Identifier: Apache-2.0
"""What `deduplicate` takes of a record in its task."""

from __future__ import annotations

from dataclasses import replace

from streamapp import operations as o
from streamapp.spark.flow import STREAM_TIME, Flow, column

READ_AT = "__read_at"
"""How far the time of its partition had come when the record was read; one that is much older passes unseen."""


def with_time_of_reading(flow: Flow) -> Flow:
    """The records with READ_AT."""
    return replace(flow, columns=(*flow.columns, READ_AT)).tidy(flow.frame.withColumn(READ_AT, column(STREAM_TIME)))


def without_time_of_reading(flow: Flow) -> Flow:
    """The records as they came."""
    before = replace(flow, columns=tuple(name for name in flow.columns if name != READ_AT))
    return before.tidy(flow.frame)


def same_by(node: o.Deduplicate, flow: Flow) -> tuple[tuple[str, str], ...]:
    """The columns that say which records are the same: names, and the physical columns behind them."""
    seen = {name.lower(): physical for name, physical in flow.visible()}
    return tuple((name, seen[name.lower()]) for name in node.by)
