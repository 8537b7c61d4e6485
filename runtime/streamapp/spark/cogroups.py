# SPDX-License-Identifier: Apache-2.0
"""The records of a cogroup's streams, and aggregates over those of one of them."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from streamapp import operations as o
from streamapp.nodes.pairs import names_of
from streamapp.spark.flow import Flow, column
from streamapp.spark.guard import expression

_THERE = "__there"
"""A field in each struct, so that no struct is without fields."""


def cogrouped(node: o.CogroupedRecords, flow: Flow) -> Flow:
    """Each record with its group, and with its aggregated columns in a struct. A record without a value stays one."""
    seen = {name.lower(): physical for name, physical in flow.visible()}
    fields = (column(seen[name.lower()]).alias(name) for name in node.fields)
    # The columns are taken from the record: a group's column may have the same name as one of them.
    of_record = flow.frame.withColumn(
        node.struct, flow.null_in_other_branches(F.struct(F.lit(True).alias(_THERE), *fields))
    )
    made = {f"__group_{i}": flow.null_in_other_branches(expression(sql)) for i, (_, sql) in enumerate(node.by)}
    scope = replace(flow, frame=of_record).scope().withColumns(made)
    names = names_of(node.by)
    after = replace(flow, columns=(*names, node.struct))
    groups = {name: column(f"__group_{i}") for i, name in enumerate(names)}
    kept = [column(name) for name in after.physical() if name not in groups]
    return after.selected_from(scope.select(*kept, *(value.alias(name) for name, value in groups.items())))


def fields_of(struct: str, frame: DataFrame) -> list[tuple[str, Column]]:
    """The columns of a record that are in that struct."""
    fields = frame.schema[struct].dataType
    assert isinstance(fields, StructType)
    return [(name, column(struct)[name]) for name in fields.names if name != _THERE]
