# SPDX-License-Identifier: Apache-2.0
"""Internal topics between sub-topologies (hops). They carry whole rows, exactly, so that a reader goes on as if there
were no topic between."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from streamapp import nodes as n
from streamapp.spark import formats
from streamapp.spark.flow import EVENT_TIME, STREAM_TIME, Flow, column
from streamapp.spark.records import PLACE_FIELDS
from streamapp.spark.sources import SourceReader
from streamapp.spark.streamtime import CARRIED_TIME
from streamapp.spark.tables import typed_as_changes

HOP_PLACE = [f"__hop_{name}" for name in PLACE_FIELDS]
"""The place of a row in such a topic, beside the place of the record that the row was made from."""
HOP_OFFSET = "__hop_offset"

# An internal topic keeps microseconds; the users' JSON has only milliseconds.
_EXACT_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
    "timeZone": "UTC",
}


class Hops:
    """The columns that were written to each internal topic, for the nodes that read it later.

    Args:
        read_raw: gives the raw Kafka rows of a source node.
    """

    def __init__(self, read_raw: SourceReader) -> None:
        self._read_raw = read_raw
        self._written: dict[str, tuple[StructType, Flow]] = {}

    def written(self, node: n.RepartitionSink, flow: Flow) -> tuple[Flow, Column, Column]:
        """The flow's rows that are written, and the key and the value of their records."""
        given = typed_as_changes(flow) if node.signed and not flow.changes else flow
        carried = {CARRIED_TIME: column(STREAM_TIME)} if node.carries_time and given.timed and not given.changes else {}
        # A reader of the topic has its own time and place for each row.
        bare = replace(given, timed=False, hopped=False, placed=False)
        names = [name for name in bare.physical() if name != EVENT_TIME and name not in bare.carried]
        values = {name: column(name) for name in names} | carried
        columns = [value.alias(name) for name, value in values.items()]
        self._written[node.topic] = (bare.frame.select(*columns).schema, replace(bare, guard=None, carried=()))
        types: dict[str, object] = {name: bare.frame.schema[physical].dataType for name, physical in bare.key}
        key_columns = [(name, column(physical)) for name, physical in bare.key]
        key = formats.key_text(key_columns, types)
        return given, key, F.to_json(F.struct(*columns), _EXACT_JSON).cast("binary")

    def read(self, node: n.RepartitionSource) -> Flow:
        """The rows that were written to a topic, with HOP_PLACE."""
        schema, upstream = self._written[node.topic]
        row = formats.from_json(column("value").cast("string"), schema, {**_EXACT_JSON, "mode": "FAILFAST"})
        raw = self._read_raw(node).select(row.alias("__row"), column("timestamp"), *map(column, PLACE_FIELDS))
        columns = [F.col("__row")[field.name].alias(field.name) for field in schema.fields]
        place = [column(name).alias(here) for name, here in zip(PLACE_FIELDS, HOP_PLACE, strict=True)]
        return replace(upstream, frame=raw.select(column("timestamp").alias(EVENT_TIME), *place, *columns))
