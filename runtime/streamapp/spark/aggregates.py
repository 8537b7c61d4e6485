# SPDX-License-Identifier: Apache-2.0
"""The aggregates of a `groupBy`, as columns of Spark's aggregation."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import StructField, StructType

from streamapp import operations as o
from streamapp.nodes.pairs import names_of
from streamapp.operations.group_checks import FOLDED
from streamapp.spark.flow import Flow, column
from streamapp.spark.guard import expression, expression_within
from streamapp.spark.jvm import java_class


def aggregates_of(node: o.Aggregate, flow: Flow) -> list[Column]:
    """The aggregates over the rows of a group, as `__result_…`. An aggregate of a cogroup's stream takes only that
    stream's records."""
    if node.reduce:
        whole = _reduced(node, flow)
        found = [whole[name] for name, _ in node.reduce]
    else:
        within = dict(node.within)
        groups = names_of(node.by)
        found = [
            expression_within(sql, within[name], groups) if name in within else expression(sql)
            for name, sql in node.columns
        ]
    return [value.alias(f"__result_{i}") for i, value in enumerate(found)]


def _reduced(node: o.Aggregate, flow: Flow) -> Column:
    """A struct of the columns that the records of a group are reduced to. The reduction begins with the first record;
    columns keep their types."""
    scope = flow.scope()
    types = {field.name.lower(): field.dataType for field in scope.schema}
    kept = StructType([StructField(name, types[name.lower()]) for name, _ in node.reduce])
    first = F.struct(*(column(field.name).alias(field.name) for field in kept))
    following = F.struct(*(expression(sql).cast(types[name.lower()]).alias(name) for name, sql in node.reduce))
    merges = node.window is not None and node.window.of_records
    spark = scope.sparkSession
    ours = java_class("keyed.Reduce")
    return ClassicColumn(ours.of(spark._jsparkSession, first._jc, following._jc, FOLDED, kept.json(), merges))
