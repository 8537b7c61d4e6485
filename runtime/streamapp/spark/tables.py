# SPDX-License-Identifier: Apache-2.0
"""The computations of a task on one row or on two, as DataFrames over given rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from py4j.java_gateway import JavaObject
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import LongType, StructField, StructType

from streamapp import operations as o
from streamapp.spark.flow import DELETED, EVENT_TIME, IS, SIGN, STREAM_TIME, WAS, Flow, column, quoted
from streamapp.spark.joins import keys_of, result_of, values_of
from streamapp.spark.jvm import java_class

_NOW = "__now"
STREAM_TIME_FIELD = StructField(STREAM_TIME, LongType(), nullable=False)
"""The field that processors have beside a row's columns."""


class TaskRows:
    """The rows that a task's processors compute with. It wraps the JVM's builder of tasks."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.task: JavaObject = java_class("keyed.KeyedTaskBuilder")(spark._jsparkSession, DELETED, EVENT_TIME)

    def of(self, schema: StructType) -> DataFrame:
        """One row of these columns."""
        return ClassicDataFrame(self.task.rowOf(schema.json()), self._spark)

    def timed(self, schema: StructType) -> DataFrame:
        """One row of these columns and STREAM_TIME."""
        return self.of(StructType([*schema.fields, STREAM_TIME_FIELD]))

    def of_both(
        self, left: StructType, left_alias: str, right: StructType, right_alias: str, *more: StructField
    ) -> DataFrame:
        """Two rows, whose columns are called ALIAS.column, and more columns."""
        rows = self.task.rowsOf(left.json(), left_alias, right.json(), right_alias, StructType([*more]).json())
        return ClassicDataFrame(rows, self._spark)


@dataclass(frozen=True)
class Side:
    """One of two rows, by its physical columns."""

    alias: str
    names: Mapping[str, str] = field(default_factory=dict)
    """The names that expressions use for physical columns, where they are not the columns' own."""

    def __getitem__(self, name: str) -> Column:
        return F.col(f"{quoted(self.alias)}.{quoted(self.names.get(name, name))}")


def sides_of(node: o.TableJoin, left: Flow, right: Flow, rows: TaskRows) -> tuple[DataFrame, Side, Side]:
    """One row of each side of a join, under the names that its expressions have for the columns."""
    one, two = (
        Side(alias, {physical: name for name, physical in reversed(flow.visible()) if name != physical})
        for alias, flow in zip(node.aliases, (left, right), strict=True)
    )
    schemas = (
        StructType([StructField(side.names.get(f.name, f.name), f.dataType) for f in flow.schema()])
        for side, flow in ((one, left), (two, right))
    )
    return rows.of_both(next(schemas), one.alias, next(schemas), two.alias), one, two


def joined_with_table(node: o.TableJoin, left: Flow, right: Flow, rows: TaskRows, waiting: Flow | None = None) -> Flow:
    """The flow of the join's results, over one row of each side.

    Args:
        waiting: the left side's rows as they come, where their columns are in another order.

    Raises:
        ManifestError: when the keys of both sides cannot meet.
    """
    ours, theirs = keys_of(node, left, right)
    both, one, two = sides_of(node, waiting or left, right, rows)
    if node.keeps_key:
        key = {name: one[physical] for name, physical in left.key}
    else:
        key = {name: F.coalesce(one[mine], two[other]) for (name, mine), (_, other) in zip(ours, theirs, strict=True)}
    values = values_of(node, (left, one), (right, two))
    time = F.greatest(one[EVENT_TIME], two[EVENT_TIME]) if left.table else one[EVENT_TIME]
    return replace(result_of(both, key, values, time), table=left.table)


@dataclass(frozen=True)
class Kept:
    """How a table's rows are kept."""

    key: DataFrame
    """The key that the store keeps, over a row."""
    value: DataFrame
    """The value that the store keeps, over a row."""
    row: DataFrame
    """The row, over key and value."""
    answers: DataFrame
    """The columns of an answer to a question, over key and value."""


def kept(flow: Flow, rows: TaskRows) -> Kept:
    """A table's store. Its fingerprint fixes the order of its columns: the key, then the rest by name."""
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
    """The row that says that a row is deleted, over the row before and the time."""
    keys = {name.lower() for name, _ in flow.key} | {physical for _, physical in flow.key}
    special = {DELETED: F.lit(True), EVENT_TIME: F.timestamp_micros(column(_NOW))}

    def of(field: StructField) -> Column:
        kept = column(field.name) if field.name.lower() in keys else F.lit(None).cast(field.dataType)
        return special.get(field.name, kept).alias(field.name)

    schema = flow.schema()
    given = rows.of(StructType([*schema.fields, StructField(_NOW, LongType())]))
    return given.select(*(of(field) for field in schema))


def changes(flow: Flow, rows: TaskRows) -> Flow:
    """A table's changes, over the row before, the row after, and the time. Both are in one row, so that no reader sees
    one without the other."""
    schema = flow.schema()
    was, now = Side(WAS), Side(IS)
    both = rows.of_both(schema, WAS, schema, IS, StructField(_NOW, LongType()))

    def whole(side: Side) -> Column:
        # A row that exists says whether it is deleted.
        row = F.struct(*(side[name].alias(name) for name in schema.names))
        return F.when(side[DELETED].isNotNull(), row)

    key = (F.coalesce(now[physical], was[physical]).alias(physical) for _, physical in flow.key)
    frame = both.select(
        F.timestamp_micros(column(_NOW)).alias(EVENT_TIME), *key, whole(was).alias(WAS), whole(now).alias(IS)
    )
    return replace(flow, frame=frame, changes=True)


def typed_as_changes(flow: Flow) -> Flow:
    """A table's rows with the types of its changes, where nothing is run."""
    row = F.struct(*(column(name) for name in flow.row()))
    key = (column(physical) for _, physical in flow.key)
    frame = flow.frame.select(column(EVENT_TIME), *key, row.alias(WAS), row.alias(IS))
    return replace(flow, frame=frame, changes=True)


def signed_rows(flow: Flow, place: Sequence[str]) -> Flow:
    """The rows before and after changes, each with its sign.

    Args:
        place: further columns that stay.
    """
    schema = flow.frame.schema[IS].dataType
    assert isinstance(schema, StructType)
    sides = (F.struct(F.lit(sign).alias(SIGN), column(side).alias("__row")) for sign, side in ((-1, WAS), (1, IS)))
    there = F.filter(F.array(*sides), lambda side: side["__row"].isNotNull())
    exploded = flow.frame.select(EVENT_TIME, *place, F.explode(there).alias("__side"))
    fields = (F.col("__side.__row")[name].alias(name) for name in schema.names if name != EVENT_TIME)
    frame = exploded.select(EVENT_TIME, *place, F.col("__side")[SIGN].alias(SIGN), *fields)
    return replace(flow, frame=frame, changes=False, signed=True)


def of_changes(aggregated: DataFrame) -> DataFrame:
    """The same aggregates over a table's changes: they subtract the row before each change."""
    return ClassicDataFrame(java_class("keyed.Retractions").of(aggregated._jdf, SIGN), aggregated.sparkSession)
