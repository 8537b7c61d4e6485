# SPDX-License-Identifier: Apache-2.0
"""What a task computes of one row or of two, as DataFrames over rows that are given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from streamapp import operations as o
from streamapp.errors import ManifestError, Problem
from streamapp.spark.flow import DELETED, EVENT_TIME, SIGN, Flow, column, quoted
from streamapp.spark.joins import keys_of, result_of, values_of

_NOW = "__now"


class TaskRows:
    """Rows that a task's processors get, to compute with. Wraps the JVM's builder of tasks."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        ours: Any = spark._jvm.org.apache.spark.sql.streamapp.keyed  # type: ignore[union-attr]
        self.task: JavaObject = ours.KeyedTaskBuilder(spark._jsparkSession, DELETED, EVENT_TIME)

    def of(self, schema: StructType) -> DataFrame:
        """One row of these columns."""
        return ClassicDataFrame(self.task.rowOf(schema.json()), self._spark)

    def of_both(self, left: StructType, left_alias: str, right: StructType, right_alias: str) -> DataFrame:
        """Two rows, whose columns are called ALIAS.column."""
        rows = self.task.rowsOf(left.json(), left_alias, right.json(), right_alias)
        return ClassicDataFrame(rows, self._spark)


@dataclass(frozen=True)
class _Side:
    alias: str

    def __getitem__(self, name: str) -> Column:
        return F.col(f"{quoted(self.alias)}.{quoted(name)}")


def joined_with_table(node: o.TableJoin, left: Flow, right: Flow, rows: TaskRows) -> Flow:
    """The flow of the join's results, over one row of each side.

    Raises:
        ManifestError: when the keys of both sides cannot meet.
    """
    ours, theirs = keys_of(node, left, right)
    one, two = map(_Side, node.aliases)
    key = {name: F.coalesce(one[mine], two[other]) for (name, mine), (_, other) in zip(ours, theirs, strict=True)}
    both = rows.of_both(left.schema(), one.alias, right.schema(), two.alias)
    values = values_of(node, (left, one), (right, two))
    time = F.greatest(one[EVENT_TIME], two[EVENT_TIME]) if left.table else one[EVENT_TIME]
    return replace(result_of(both, key, values, time), table=left.table)


@dataclass(frozen=True)
class Kept:
    """How a table's rows are kept: each frame is over one row of what it says."""

    key: DataFrame
    """Of a row."""
    value: DataFrame
    """Of a row."""
    row: DataFrame
    """Of key and value."""
    answers: DataFrame
    """Of key and value: what a question is answered with."""


def kept(flow: Flow, rows: TaskRows) -> Kept:
    """A table's store. The order of its columns follows from its fingerprint: the key, then the rest by name."""
    schema = flow.schema()
    given = rows.of(schema)
    keys = {name.lower(): physical for name, physical in flow.key if name != "key"}
    values = sorted((name for name in flow.columns if name.lower() not in keys), key=str.lower)
    key = given.select(*(column(physical) for _, physical in flow.key))
    value = given.select(*(column(name) for name in (EVENT_TIME, *values)))
    both = rows.of(StructType([*key.schema.fields, *value.schema.fields]))
    source = {DELETED: F.lit(False)} | {
        name: column(keys[name.lower()]) for name in flow.columns if name.lower() in keys
    }
    row = both.select(*(source.get(name, column(name)).alias(name) for name in flow.row()))
    shown = [name for name in flow.columns if name.lower() not in keys]
    answers = both.select(
        *(column(physical).alias(f"__key_{i}") for i, (_, physical) in enumerate(flow.key)),
        *(column(name).alias(f"__result_{i}") for i, name in enumerate(shown)),
    )
    return Kept(key, value, row, answers)


def deletions(flow: Flow, rows: TaskRows) -> DataFrame:
    """Of the row that was, the time and its sign: the row that says that it is deleted."""
    keys = {name.lower() for name, _ in flow.key} | {physical for _, physical in flow.key}
    special = {DELETED: F.lit(True), EVENT_TIME: F.timestamp_micros(column(_NOW))}

    def of(field: StructField) -> Column:
        kept = column(field.name) if field.name.lower() in keys else F.lit(None).cast(field.dataType)
        return special.get(field.name, kept).alias(field.name)

    return _changed(flow, rows).select(*(of(field) for field in flow.schema()))


def changes(flow: Flow, rows: TaskRows) -> Flow:
    """Of a row, the time and its sign: a row of the table's changes."""
    changed = _changed(flow, rows).withColumn(EVENT_TIME, F.timestamp_micros(column(_NOW)))
    return replace(flow, signed=True).tidy(changed)


def _changed(flow: Flow, rows: TaskRows) -> DataFrame:
    """A row of a table, the time at which it changed, in microseconds, and its sign."""
    more = [StructField(_NOW, LongType()), StructField(SIGN, IntegerType())]
    return rows.of(StructType([*flow.schema().fields, *more]))


def of_changes(node: o.Aggregate, aggregated: DataFrame) -> DataFrame:
    """The same aggregates over a table's changes: what a row was is taken out again.

    Raises:
        ManifestError: when that cannot be done exactly.
    """
    ours: Any = aggregated.sparkSession._jvm.org.apache.spark.sql.streamapp.keyed.Retractions  # type: ignore[union-attr]
    try:
        return ClassicDataFrame(ours.of(aggregated._jdf, SIGN), aggregated.sparkSession)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getSimpleName() != "NotRetractableException":
            raise
        said = str(error.java_exception.getMessage())
        fix = "cast it to a DECIMAL, or to a whole number"
        raise ManifestError((Problem(node.name, "aggregate", None, said, fix),)) from None
