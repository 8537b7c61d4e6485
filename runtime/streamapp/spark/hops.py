# SPDX-License-Identifier: Apache-2.0
"""Internal topics between sub-topologies: whole rows, exactly, so that who reads one goes on as if there were none."""

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
"""Where a row of such a topic lies, beside the place of the record that it was made of."""
HOP_OFFSET = "__hop_offset"

# An internal topic keeps microseconds, which the users' JSON does not.
_EXACT_JSON = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
    "timeZone": "UTC",
}


class Hops:
    """What was written to each, for those who read it later.

    Args:
        read_raw: gives the raw Kafka rows of a source node.
    """

    def __init__(self, read_raw: SourceReader) -> None:
        self._read_raw = read_raw
        self._written: dict[str, tuple[StructType, Flow]] = {}

    def written(self, node: n.RepartitionSink, flow: Flow) -> tuple[Flow, Column, Column]:
        """The rows that are written of a flow, and key and value of their records."""
        given = typed_as_changes(flow) if node.signed and not flow.changes else flow
        carried = {CARRIED_TIME: column(STREAM_TIME)} if node.carries_time and given.timed and not given.changes else {}
        # Who reads it has a time and a place of its own for it.
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
        """What was written to a topic, with HOP_PLACE."""
        schema, upstream = self._written[node.topic]
        row = F.from_json(column("value").cast("string"), schema, {**_EXACT_JSON, "mode": "FAILFAST"})
        raw = self._read_raw(node).select(row.alias("__row"), column("timestamp"), *map(column, PLACE_FIELDS))
        columns = [F.col("__row")[field.name].alias(field.name) for field in schema.fields]
        place = [column(name).alias(here) for name, here in zip(PLACE_FIELDS, HOP_PLACE, strict=True)]
        return replace(upstream, frame=raw.select(column("timestamp").alias(EVENT_TIME), *place, *columns))
