# SPDX-License-Identifier: Apache-2.0
"""Records to columns and back: one function per direction, for each format of the manifest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyspark import SparkContext
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType, TimestampType, _parse_datatype_string

from streamapp.formats import Format
from streamapp.spark.flow import column
from streamapp.spark.jvm import java_class

JSON_READ = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "__corrupt", "timeZone": "UTC"}
# ISO 8601 in UTC with milliseconds; nulls are kept, so that a reader sees every field of the schema.
JSON_WRITE = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'",
    "ignoreNullFields": "false",
    "timeZone": "UTC",
}
_LONGEST_FOUND = 120
"""The most characters of a bad record's text that a message shows."""
_DECIMAL_TEXT = {"integer": "int", "long": "bigint", "double": "double"}


@dataclass(frozen=True)
class Decoded:
    """Bytes as columns, and a condition that is true when the bytes are not of the format."""

    columns: dict[str, Column]
    bad: Column | None
    first: dict[str, Column] = field(default_factory=dict)
    """The columns that the others are made from: they must be added first."""


def json_schema(ddl: str) -> StructType:
    """The DDL text as a struct (needs a running session).

    Raises:
        pyspark.errors.ParseException: if the DDL cannot be read.
    """
    schema = _parse_datatype_string(ddl)
    if not isinstance(schema, StructType):
        raise ValueError(f"a json schema lists fields, e.g. 'user STRING, amount DOUBLE', not {ddl!r}")
    return schema


def from_json(text: Column, schema: StructType, options: dict[str, str]) -> Column:
    """The JSON text as a struct. The schema goes to Spark as SQL, which it tries first: a schema in JSON fails twice
    before it is read."""
    types: Any = getattr(SparkContext._jvm, "org.apache.spark.sql.types.DataType")
    return F.from_json(text, types.fromJson(schema.json()).sql(), options)


def decode(data: Column, form: Format, name: str) -> Decoded:
    """The bytes of a key or value as columns; a format of one value gives one column called `name`."""
    text = data.cast("string")
    if form.name == "text":
        return Decoded({name: text}, None)
    if form.name == "bytes":
        return Decoded({name: data}, None)
    if form.name in _DECIMAL_TEXT:
        number = text.try_cast(_DECIMAL_TEXT[form.name])
        return Decoded({name: number}, data.isNotNull() & number.isNull())
    if form.name.startswith("bigendian-"):
        size = 4 if form.name.endswith("integer") else 8
        number = F.call_function("streamapp_from_" + form.name.replace("-", "_"), data)
        return Decoded({name: number}, data.isNotNull() & (F.octet_length(data) != size))
    if form.name == "json":
        schema = json_schema(form.schema or "")
        parsed = from_json(text, StructType([*schema.fields]).add("__corrupt", StringType()), JSON_READ)
        read = column(f"__read_{name}")
        bad = data.isNotNull() & (read.isNull() | read["__corrupt"].isNotNull())
        return Decoded({each.name: read[each.name] for each in schema.fields}, bad, {f"__read_{name}": parsed})
    raise ValueError(f"no decoder for format '{form.name}'")


def mistake(error: Column, field: str, expected: Column, found: Column) -> Column:
    """Why a record is bad, as a struct that is only worth computing for a bad one.

    Args:
        error: a full sentence about the mistake.
        field: its place: `key`, `value` or `timestamp`; JSON adds the path below it, e.g. `value.items[2].price`.
        expected: the type that was declared for the field.
        found: the content of the field.
    """
    return F.struct(error.alias("error"), F.lit(field).alias("field"), expected.alias("expected"), found.alias("found"))


def unreadable(data: Column, form: Format, name: str) -> Column:
    """The mistake in the bytes of a key or value that are not of their format (those that are `bad` by `decode`)."""
    if form.name == "json":
        return F.call_function("streamapp_json_mistake", data.cast("string"), F.lit(form.schema or ""), F.lit(name))
    cannot = f"the {name} cannot be read as {form.name}: it "
    if form.name.startswith("bigendian-"):
        size = "4 bytes" if form.name.endswith("integer") else "8 bytes"
        found = F.concat(F.octet_length(data).cast("string"), F.lit(" bytes"))
        return mistake(F.concat(F.lit(cannot + "has "), found, F.lit(f", not {size}")), name, F.lit(size), found)
    found = F.concat(F.lit('"'), F.substring(data.cast("string"), 1, _LONGEST_FOUND), F.lit('"'))
    return mistake(F.concat(F.lit(cannot + "is "), found), name, F.lit(form.name), found)


def encode(columns: list[tuple[str, Column]], form: Format) -> Column:
    """Columns as bytes. A format of one value takes exactly one column (the check guarantees it)."""
    if form.name == "json":
        return F.to_json(F.struct(*(value.alias(name) for name, value in columns)), JSON_WRITE).cast("binary")
    ((_, value),) = columns
    if form.name == "bytes":
        return value.cast("binary")
    if form.name.startswith("bigendian-"):
        return F.call_function("streamapp_to_" + form.name.replace("-", "_"), value)
    if form.name in _DECIMAL_TEXT:
        return value.cast(_DECIMAL_TEXT[form.name]).cast("string").cast("binary")
    return value.cast("string").cast("binary")


def key_text(columns: list[tuple[str, Column]], types: dict[str, object]) -> Column:
    """The default key: one column as text (a timestamp in ISO 8601), several as JSON; null when all are null, or there
    are none."""
    if not columns:
        return F.lit(None).cast("binary")
    if len(columns) == 1:
        ((name, value),) = columns
        if isinstance(types[name], TimestampType):
            return F.date_format(value, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'").cast("binary")
        if isinstance(types[name], StructType):  # a record's own key, read as json
            return F.to_json(value, JSON_WRITE).cast("binary")
        return value.cast("string").cast("binary")
    absent = F.lit(True)
    for _, value in columns:
        absent = absent & value.isNull()
    return F.when(~absent, encode(columns, Format("json", None)))


def register_functions(spark: SparkSession) -> None:
    """Registers functions for Kafka's own binary number formats, which SQL cannot read; one that keeps columns in a
    state (Needs); and one that finds the mistake in a JSON text."""
    for name in ("BigEndian", "Needs", "JsonMistake"):
        java_class(name).register(spark._jsparkSession)


def struct_of(names: list[str]) -> Column:
    """The named columns as one struct."""
    return F.struct(*(column(name).alias(name) for name in names))
