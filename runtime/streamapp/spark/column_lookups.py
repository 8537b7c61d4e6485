# SPDX-License-Identifier: Apache-2.0
"""Lookups of a table's rows by columns that are not its key: the rows are kept by these columns."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from streamapp import operations as o
from streamapp.spark.flow import DELETED, EVENT_TIME, SIGN, Flow, column
from streamapp.spark.joins import keys_of
from streamapp.spark.tables import TaskRows, joined_with_table


def looked_up_by_columns(
    node: o.ColumnLookup, stream: tuple[int, Flow], table: tuple[int, Flow], rows: TaskRows
) -> tuple[int, Flow]:
    """Adds to a task the step that keeps a table's rows by the columns that records look up. Returns the step's number
    and the flow of its results.

    Args:
        table: the rows before and after the table's changes, each with its sign.
    """
    (stream_at, one), (table_at, two) = stream, table
    flow = joined_with_table(node, one, two, rows)
    ours, theirs = keys_of(node, one, two)
    wanted = rows.of(one.schema()).select(*(column(physical) for _, physical in ours))
    schema = two.schema()
    given = rows.of(schema)
    key = given.select(
        *(column(physical).alias(f"__by_{i}") for i, (_, physical) in enumerate(theirs)),
        *(column(physical).alias(f"__own_{i}") for i, (_, physical) in enumerate(two.key)),
    )
    # The order of its columns follows from the fingerprint.
    names = sorted({*two.columns, *(physical for _, physical in two.key)}, key=lambda name: (name.lower(), name))
    value = given.select(column(EVENT_TIME), *map(column, names))
    stored: Mapping[str, Column] = {DELETED: F.lit(False), SIGN: F.lit(1)}
    row = rows.of(value.schema).select(*(stored.get(f.name, column(f.name)).alias(f.name) for f in schema))
    frames = (frame._jdf for frame in (wanted, key, value, row, flow.frame))
    (store,) = node.stores
    return rows.task.columnLookup(stream_at, table_at, store, SIGN, *frames, node.type == "left"), flow
