# SPDX-License-Identifier: Apache-2.0
"""Late records as records of a topic: the record that came to the node, with headers that say why it takes no part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from py4j.java_gateway import JavaObject
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, TimestampType

from streamapp import operations as o
from streamapp.formats import Format
from streamapp.spark import formats
from streamapp.spark.cogroups import fields_of
from streamapp.spark.flow import DELETED, EVENT_TIME, STREAM_TIME, Flow, column, hidden
from streamapp.spark.tables import STREAM_TIME_FIELD, TaskRows

RECORD = "__late_record"
"""The struct column of a late record in a node's output; null in its results."""
_RESULTS = "__results"
_TIME = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
_SPAN = StructType([StructField("__start", TimestampType()), StructField("__end", TimestampType())])
_HEADERS = "array<struct<key:string,value:binary>>"


def late_record(
    node: o.Aggregate | o.Join,
    flow: Flow,
    start: Column,
    end: Column,
    more: Mapping[str, Column] = MappingProxyType({}),
) -> Column:
    """The topic's record about a row that is late for that window: a struct of DELETED and the record's columns.

    Args:
        more: further headers.
    """
    types: dict[str, object] = {name: flow.type_of(physical) for name, physical in flow.key}
    key_columns = [(name, flow.physically(physical)) for name, physical in flow.key]
    key = formats.key_text(key_columns, types)
    reached = _text(F.timestamp_micros(flow.physically(STREAM_TIME)))
    headers = {
        "streamapp.error": F.concat(F.lit("late: the time of its partition had come to "), reached),
        "streamapp.node": F.lit(node.name),
        "streamapp.window": F.concat(_text(start), F.lit("/"), _text(end)),
        **more,
    }
    headers |= {
        f"streamapp.{field}": flow.physically(hidden(field)).cast("string")
        for field in ("topic", "partition", "offset")
        if field in flow.fields
    }
    added = F.array(
        *(F.struct(F.lit(name).alias("key"), value.cast("binary").alias("value")) for name, value in headers.items())
    )
    return F.struct(
        F.lit(False).alias(DELETED),
        F.lit(node.late).alias("topic"),
        key.alias("key"),
        _value(node, flow).alias("value"),
        F.unix_millis(flow.physically(EVENT_TIME)).alias("timestamp"),
        added.cast(_HEADERS).alias("headers"),
    )


def late_rows(
    node: o.Aggregate | o.Join, flow: Flow, rows: TaskRows, more: Mapping[str, Column] = MappingProxyType({})
) -> JavaObject | None:
    """The topic's record about a row that comes late to a task, over the row, begin and end of its window, and stream
    time. None where late records go to no topic."""
    if node.late is None:
        return None
    row = rows.of(StructType([*flow.schema().fields, *_SPAN, STREAM_TIME_FIELD]))
    start, end = map(column, _SPAN.names)
    record = late_record(node, replace(flow, frame=row), start, end, more)
    return row.select(record.alias(RECORD)).select(f"{RECORD}.*")._jdf


def _value(node: o.Aggregate | o.Join, flow: Flow) -> Column:
    """The columns of the late row, as JSON. In a cogroup these are the columns of the row's own stream, which are in
    the only struct that is not null."""
    if isinstance(node, o.Aggregate) and node.within:
        structs = sorted({struct for _, struct in node.within})
        return F.coalesce(
            *(F.when(column(struct).isNotNull(), _json(fields_of(struct, flow.frame))) for struct in structs)
        )
    in_key = {name for name, physical in flow.key if physical != hidden("key")}
    return _json([(name, flow.physically(name)) for name in flow.columns if name not in in_key])


def _json(values: list[tuple[str, Column]]) -> Column:
    return formats.encode(values, Format("json", None))


def beside_late(frame: DataFrame, late: Column, columns: Sequence[Column]) -> tuple[DataFrame, str]:
    """The results of a node as a struct beside RECORD, and the name of the struct."""
    return frame.select(F.when(~late, F.struct(*columns)).alias(_RESULTS), RECORD), _RESULTS


def _text(time: Column) -> Column:
    return F.date_format(time, _TIME)
