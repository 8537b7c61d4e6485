# SPDX-License-Identifier: Apache-2.0
"""The rows that a `groupBy` takes, and the table of its results: the same whichever operator keeps the groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from streamapp import operations as o
from streamapp.spark.aggregates import aggregates_of
from streamapp.spark.flow import DELETED, EVENT_TIME, Flow, all_null, column
from streamapp.spark.folds import columns_of_groups
from streamapp.spark.guard import expression
from streamapp.spark.late import RECORD, beside_late

LATEST = "__latest"
"""The column with the event time of the latest record in a result."""


def settings_of(node: o.Aggregate) -> dict[str, int | bool]:
    """The settings that an operator needs to keep windows of any kind."""
    return {
        "grace": node.grace_ms * 1000,
        "retention": node.retention_ms * 1000,
        "isFinal": node.emit == "final",
    }


@dataclass(frozen=True)
class Grouping:
    """The rows that take part in a `groupBy`."""

    node: o.Aggregate
    flow: Flow
    by: Mapping[str, str]
    """The columns of the group: names, and physical columns."""

    @classmethod
    def of(cls, node: o.Aggregate, flow: Flow) -> Grouping:
        """The grouping of a flow's rows. As in Kafka Streams, a record without key or without value takes no part."""
        by = {name: f"__group_{i}" for i, (name, _) in enumerate(node.by)}
        scope = flow.scope().withColumns({by[name]: expression(sql) for name, sql in node.by})
        rows = scope.filter(~column(DELETED) & ~all_null(map(column, by.values())))
        return cls(node, replace(flow, frame=rows), by)

    @property
    def groups(self) -> list[Column]:
        """The columns of the group."""
        return [column(physical) for physical in self.by.values()]

    def over(self, rows: DataFrame) -> Grouping:
        """The same grouping over a frame that has more columns."""
        return replace(self, flow=replace(self.flow, frame=rows))

    def aggregates(self) -> list[Column]:
        """The aggregates over the rows of a group, as `__result_…`."""
        return aggregates_of(self.node, self.flow)

    def results(self) -> list[Column]:
        """The aggregates and LATEST."""
        return [*self.aggregates(), F.max(column(EVENT_TIME)).alias(LATEST)]

    def table(
        self, found: DataFrame, span: tuple[Column, Column] | None, *, gone: Column | None = None, late: bool = False
    ) -> Flow:
        """The table of the groups.

        Args:
            found: the columns of the group, results and LATEST.
            span: begin and end of the window, where there are windows.
            gone: whether a row says that there is no such window any more.
            late: whether `found` has RECORD, for late records.
        """
        keys = {name: column(physical) for name, physical in self.by.items()}
        if self.node.window is not None and span is not None:
            keys |= dict(zip(self.node.window.columns, span, strict=True))
        values = {name: column(f"__result_{i}") for i, (name, _) in enumerate(self.node.values)}
        key = tuple((name, f"__key_{i}") for i, name in enumerate(keys))
        columns = columns_of_groups(keys, values, column(LATEST), gone)
        if late:
            frame, packed = beside_late(found, column(RECORD).isNotNull(), columns)
        else:
            frame, packed = found.select(*columns), None
        return Flow(frame, (*keys, *values), ("timestamp",), key, table=True, packed=packed)
