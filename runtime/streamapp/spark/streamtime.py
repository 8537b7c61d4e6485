# SPDX-License-Identifier: Apache-2.0
"""Stream time: the latest event time of each source partition, by which windows close."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from streamapp import nodes as n
from streamapp import operations as o
from streamapp.expressions import normalise
from streamapp.plan import SubTopology
from streamapp.spark.flow import EVENT_TIME, ORDER_TIME, STREAM_TIME
from streamapp.spark.jvm import java_class

CARRIED_TIME = "__carried_time"
"""The STREAM_TIME that a row of an internal topic was written with; null where it had none."""


def tags_of(part: SubTopology) -> Mapping[str, str]:
    """A tag for each source whose event time the sub-topology uses, by node; empty where it uses none.

    The stream times of former runs are kept by tag, topic and partition. A tag says how event times are made: with a
    new `timestamp`, stream time begins anew; with a new name of the node, it does not.
    """
    if not part.timed:
        return {}
    found: dict[str, str] = {}
    for node in part.nodes:
        if isinstance(node, n.RepartitionSource):
            tag = "hop"
        elif isinstance(node, o.Stream):
            tag = "own" if node.timestamp is None else _digest(node.timestamp)
        else:
            continue
        alike = sum(other == tag or other.startswith(f"{tag}-") for other in found.values())
        found[node.name] = f"{tag}-{alike + 1}" if alike else tag
    return found


def with_stream_time(frame: DataFrame, tag: str, topic: str, partition: str) -> DataFrame:
    """The rows of a source with STREAM_TIME; `topic` and `partition` are the columns that say where a row was read."""
    return _with_times(frame, tag, [topic, partition, EVENT_TIME], [STREAM_TIME])


def with_times_of_hop(frame: DataFrame, tag: str, topic: str, partition: str) -> DataFrame:
    """The rows of an internal topic with STREAM_TIME and ORDER_TIME. Rows of changes have no CARRIED_TIME."""
    if CARRIED_TIME not in frame.columns:
        frame = frame.withColumn(CARRIED_TIME, F.lit(None).cast("bigint"))
    return _with_times(frame, tag, [topic, partition, EVENT_TIME, CARRIED_TIME], [STREAM_TIME, ORDER_TIME])


def _with_times(frame: DataFrame, tag: str, place: list[str], times: list[str]) -> DataFrame:
    return ClassicDataFrame(java_class("keyed.StreamTime").of(frame._jdf, tag, place, times), frame.sparkSession)


def _digest(timestamp: str) -> str:
    text = timestamp if timestamp == "processing" else normalise(timestamp)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
