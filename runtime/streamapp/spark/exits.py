# SPDX-License-Identifier: Apache-2.0
"""The exits of a task: rows, changes and late records, each kind in a column of its output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streamapp import nodes as n
from streamapp.spark.flow import STREAM_TIME, Flow, column

ROWS = "rows"
"""An exit of rows."""
CHANGES = "changes"
"""An exit of changes: of each, the row before and the row after."""
LATE = "late"
"""An exit of records that are late for the node."""


@dataclass(frozen=True)
class Exit:
    """Rows that leave a task."""

    node: str
    flow: Flow
    """The rows, in a struct column of the task's output, which all exits share."""
    kind: str
    """ROWS, CHANGES or LATE."""


def wanted_by(reader: n.Node) -> str:
    """The kind of exit that the reader reads."""
    if isinstance(reader, n.LateRecords):
        return LATE
    return CHANGES if isinstance(reader, n.RepartitionSink) and reader.signed else ROWS


def timed(output: DataFrame, exits: Sequence[Exit]) -> tuple[DataFrame, list[Exit]]:
    """The same output with STREAM_TIME in the structs of rows. The other exits do not need it."""
    structs = {}
    for exit in exits:
        if exit.kind != ROWS:
            continue
        assert exit.flow.packed is not None
        fields = (exit.flow.physically(name).alias(name) for name in exit.flow.physical())
        struct = F.struct(*fields, column(STREAM_TIME))
        structs[exit.flow.packed] = F.when(column(exit.flow.packed).isNotNull(), struct)
    found = [replace(exit, flow=replace(exit.flow, timed=exit.kind == ROWS)) for exit in exits]
    return output.withColumns(structs) if structs else output, found
