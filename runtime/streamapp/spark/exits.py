# SPDX-License-Identifier: Apache-2.0
"""What leaves a task: rows, changes and late records, each kind in a column of its output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from streamapp import nodes as n
from streamapp.spark.flow import STREAM_TIME, Flow, column

ROWS = "rows"
"""What leaves a task is rows."""
CHANGES = "changes"
"""It is of each change what was and what is."""
LATE = "late"
"""It is records that are late for the node."""


@dataclass(frozen=True)
class Exit:
    """Rows that leave a task."""

    node: str
    flow: Flow
    """In a struct column of the task's output, which all exits share."""
    kind: str
    """ROWS, CHANGES or LATE."""


def wanted_by(reader: n.Node) -> str:
    """Which kind of exit it reads."""
    if isinstance(reader, n.LateRecords):
        return LATE
    return CHANGES if isinstance(reader, n.RepartitionSink) and reader.signed else ROWS


def timed(output: DataFrame, exits: Sequence[Exit]) -> tuple[DataFrame, list[Exit]]:
    """The same output with STREAM_TIME in the structs of rows; in others nobody goes by it."""
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
