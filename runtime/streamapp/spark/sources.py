# SPDX-License-Identifier: Apache-2.0
"""Records of the user's topics as rows: their columns, their event times, and which of them cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from streamapp import nodes as n
from streamapp import operations as o
from streamapp.spark import formats
from streamapp.spark.flow import DELETED, EVENT_TIME, Flow, column, hidden
from streamapp.spark.guard import expression
from streamapp.spark.records import HEADERS, PLACE_FIELDS

SourceReader = Callable[[n.Node], DataFrame]


class Sources:
    """The records of sources.

    Args:
        read: gives the raw Kafka rows of a source node.
        on_bad_record: the action of a source on records that it cannot decode: `Fail`, `Drop` or `DeadLetter`.
    """

    def __init__(self, read: SourceReader, on_bad_record: str) -> None:
        self.read = read
        self._on_bad_record = on_bad_record

    def rows(self, node: o.Stream) -> Flow:
        """A source's records that can be read, with their event times."""
        decoded = _decode(node)
        raw = decoded.begun(self.read(node))
        if node.value.can_be_malformed or node.key.can_be_malformed:
            raw = self._without_bad_records(node, raw, decoded)
        flow = _columns_of(raw, decoded)
        if node.timestamp is not None:
            return self._extracted_time(node, flow, node.timestamp)
        return flow

    def bad_records(self, node: o.Stream) -> Flow:
        """The raw rows that a source drops, with the reason in the struct `__why`. It is computed for bad rows only."""
        decoded = _decode(node)
        records = self.read(node)
        raw = decoded.begun(records)
        reason = _why(node, decoded)
        bad = decoded.bad
        if node.timestamp is not None and node.timestamp != "processing":
            rows = formats.struct_of(records.columns).alias("__raw")
            flow = _columns_of(
                raw.withColumns({"__raw": rows, "__bad": bad, "__why": reason}), decoded, ("__raw", "__bad", "__why")
            )
            untimed = _untimed(expression(node.timestamp).cast("timestamp"), node)
            judged = flow.scope().withColumn("__untimed", untimed)
            frame = judged.filter(column("__bad") | column("__untimed").isNotNull())
            why = F.coalesce(column("__why"), column("__untimed"))
            raw = frame.select(*(F.col("__raw")[name].alias(name) for name in records.columns), why.alias("__why"))
            return Flow(raw, (), (), ())
        return Flow(raw.filter(bad).select(*map(column, records.columns), reason.alias("__why")), (), (), ())

    def _without_bad_records(self, node: o.Stream, raw: DataFrame, decoded: _Decoded) -> DataFrame:
        if self._on_bad_record != "Fail":
            return raw.observe(f"bad:{node.name}", F.count_if(decoded.bad).alias("bad")).filter(~decoded.bad)
        wrong = formats.unreadable(column("value"), node.value, "value")["error"]
        if node.value.name == "json":
            wrong = F.concat(wrong, F.lit(", in "), F.substring(column("value").cast("string"), 1, 120))
        if node.key.can_be_malformed:
            of_key = formats.unreadable(column("key"), node.key, "key")["error"]
            wrong = F.when(decoded.bad_value, wrong).otherwise(of_key) if node.value.can_be_malformed else of_key
        place = map(column, PLACE_FIELDS)
        return raw.filter(_fail_where(decoded.bad, node.name, place, wrong))

    def _extracted_time(self, node: o.Stream, flow: Flow, timestamp: str) -> Flow:
        time = F.current_timestamp() if timestamp == "processing" else expression(timestamp).cast("timestamp")
        frame = flow.scope().withColumn("__extracted", time)
        if timestamp != "processing":
            wrong = _untimed(column("__extracted"), node)
            lost = wrong.isNotNull()
            if self._on_bad_record == "Fail":
                place = map(column, map(hidden, PLACE_FIELDS))
                frame = frame.filter(_fail_where(lost, node.name, place, wrong["error"]))
            else:
                frame = frame.observe(f"untimed:{node.name}", F.count_if(lost).alias("bad")).filter(~lost)
        return flow.selected_from(frame.withColumn(EVENT_TIME, column("__extracted")))


def dead_letters(node: n.DeadLetter, bad: Flow) -> Flow:
    """The source's bad records as they came, with headers that name the record's place and its mistake."""
    where = {
        "streamapp.error": column("__why")["error"],
        "streamapp.field": column("__why")["field"],
        "streamapp.expected": column("__why")["expected"],
        "streamapp.found": column("__why")["found"],
        "streamapp.node": F.lit(node.input),
        "streamapp.topic": column("topic"),
        "streamapp.partition": column("partition").cast("string"),
        "streamapp.offset": column("offset").cast("string"),
    }
    added = F.array(*(F.struct(F.lit(k).alias("key"), v.cast("binary").alias("value")) for k, v in where.items()))
    frame = bad.frame.select(
        F.lit(node.topic).alias("topic"),
        column("key"),
        column("value"),
        F.unix_millis(column("timestamp")).alias("timestamp"),
        F.concat(F.coalesce(column("headers"), F.array().cast(HEADERS)), added.cast(HEADERS)).alias("headers"),
    )
    return replace(bad, frame=frame)


@dataclass(frozen=True)
class _Decoded:
    """A source's columns, and the conditions for a record that is not as the manifest says."""

    first: dict[str, Column]
    """The columns that the others are made from, over the raw rows."""
    values: dict[str, Column]
    key: Column
    bad_value: Column
    bad_key: Column

    @property
    def bad(self) -> Column:
        return self.bad_value | self.bad_key

    def begun(self, raw: DataFrame) -> DataFrame:
        """The raw rows with the columns that the others are made from."""
        return raw.withColumns(self.first) if self.first else raw


def _columns_of(raw: DataFrame, decoded: _Decoded, carried: tuple[str, ...] = ()) -> Flow:
    """Raw Kafka rows as a flow: the value's columns and the record's fields."""
    present = tuple(name for name in n.RECORD_COLUMNS if name in raw.columns)  # headers only where they are used
    fields = {
        DELETED: column("value").isNull(),
        hidden("key"): decoded.key,
        **{hidden(name): column(name) for name in present if name != "key"},
    }
    columns = [*fields.items(), *decoded.values.items()]
    frame = raw.select(*(column(c) for c in carried), *(c.alias(name) for name, c in columns))
    return Flow(frame, tuple(decoded.values), present, (("key", hidden("key")),), carried=carried)


def _decode(node: o.Stream) -> _Decoded:
    value = formats.decode(column("value"), node.value, "value")
    key = formats.decode(column("key"), node.key, "key")
    never = F.lit(False)
    fields = [field.alias(name) for name, field in key.columns.items()]
    return _Decoded(
        first=value.first | key.first,
        values=value.columns,
        key=fields[0] if node.key.single_value else F.struct(*fields),
        bad_value=never if value.bad is None else value.bad,
        bad_key=never if key.bad is None else key.bad,
    )


def _fail_where(bad: Column, node: str, place: Iterable[Column], wrong: Column) -> Column:
    """A condition that is always true, or ends the query with an error that names the record where `bad` is true."""
    topic, partition, offset = place
    message = F.concat(
        F.lit(f"BAD_RECORD node '{node}': topic "),
        topic,
        F.lit(", partition "),
        partition.cast("string"),
        F.lit(", offset "),
        offset.cast("string"),
        F.lit(": "),
        wrong,
    )
    return F.when(bad, F.raise_error(message).cast("boolean")).otherwise(True)


def _why(node: o.Stream, decoded: _Decoded) -> Column:
    """The mistake in a row's value or key; null where both can be read."""
    value = formats.unreadable(column("value"), node.value, "value")
    key = formats.unreadable(column("key"), node.key, "key")
    return F.when(decoded.bad_value, value).when(decoded.bad_key, key)


def _untimed(extracted: Column, node: o.Stream) -> Column:
    """The mistake in the event time that a record's `timestamp` expression has given; null where there is none.

    The time is compared with the record's own timestamp, not with a clock: a replay must give the same result.
    """
    own = column(EVENT_TIME)
    later = F.concat(
        F.lit(f"more than maxAhead ({node.max_ahead_ms} ms) later than the record's own timestamp "), own.cast("string")
    )
    gives = F.lit(f"the timestamp expression `{node.timestamp}` gives ")
    null, found = F.lit("null"), extracted.cast("string")
    none = formats.mistake(F.concat(gives, null), "timestamp", F.lit("TIMESTAMP"), null)
    error = F.concat(gives, found, F.lit(", which is "), later)
    ahead = formats.mistake(error, "timestamp", F.concat(F.lit("not "), later), found)
    # Kafka writes -1 for a record without a timestamp: there is nothing to compare with.
    too_far = (F.unix_millis(own) >= 0) & (F.unix_millis(extracted) - F.lit(node.max_ahead_ms) > F.unix_millis(own))
    return F.when(extracted.isNull(), none).when(too_far, ahead)
