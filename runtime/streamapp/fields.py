# SPDX-License-Identifier: Apache-2.0
"""Field types that the manifest's models share. They refuse a wrong value with a fix."""

from __future__ import annotations

from typing import Annotated, Any, NoReturn

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    model_serializer,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from streamapp import formats
from streamapp.addresses import address_fault
from streamapp.durations import parse_duration
from streamapp.errors import Invalid, near_miss
from streamapp.formats import ddl


class Model(BaseModel):
    """Base of all: unknown fields are errors, nothing changes after parsing."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, alias_generator=to_camel)


def refuse(message: str, fix: str | None = None) -> NoReturn:
    """Ends a validation with a message and a fix that reach the user as they are."""
    raise PydanticCustomError("refused", "{message}", {"message": message, "fix": fix})


def one_of(value: object, allowed: tuple[str, ...], not_yet: tuple[str, ...] = ()) -> str:
    """The value when it is one of the allowed words."""
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "not a string")
    if value in allowed:
        return value
    if value in not_yet:
        refuse(f"'{value}' is not available yet in this version", _choice(allowed))
    refuse(f"there is no '{value}'", near_miss(value, allowed) or _choice(allowed))


def _choice(allowed: tuple[str, ...]) -> str:
    return f"use {allowed[0]}" if len(allowed) == 1 else f"use {', '.join(allowed[:-1])} or {allowed[-1]}"


def _duration(text: str) -> str:
    try:
        parse_duration(text)
    except Invalid as error:
        refuse(error.message, error.fix)
    return text


def _unit(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        fix = f"write {value}s for seconds, {value}ms for milliseconds" if value else "write 0s"
        refuse(f"`{value}` is no duration: it has no unit", fix)
    return value


def _positive_duration(text: str) -> str:
    if parse_duration(_duration(text)) == 0:
        refuse(f"'{text}' is no time at all", "write e.g. 5 minutes")
    return text


def _brokers(text: str) -> str:
    fault = address_fault(text)
    if fault is not None:
        refuse(fault, "write e.g. kafka:9092")
    return text


Text = str
Duration = Annotated[
    str,
    BeforeValidator(_unit, json_schema_input_type=str),
    AfterValidator(_duration),
    Field(json_schema_extra={"examples": ["0s", "100ms", "5s", "5 minutes", "7 days"]}),
]
PositiveDuration = Annotated[
    str,
    BeforeValidator(_unit, json_schema_input_type=str),
    AfterValidator(_positive_duration),
    Field(json_schema_extra={"examples": ["100ms", "5s", "5 minutes", "7 days"]}),
]
Brokers = Annotated[str, AfterValidator(_brokers)]
Count = Annotated[StrictInt, Field(ge=0, le=1_000_000)]
PositiveCount = Annotated[StrictInt, Field(ge=1, le=1_000_000)]
MOST_COLUMNS = 1000
"""Columns that one node may make."""
Expressions = Annotated[dict[str, str], Field(min_length=1, max_length=MOST_COLUMNS)]
"""Column to Spark SQL expression."""


class FormatSpec(Model):
    """How bytes are read or written. `text` is short for `{format: text}`."""

    format: Annotated[
        str,
        Field(
            description=f"One of {', '.join(formats.AVAILABLE)}.",
            json_schema_extra={"enum": list(formats.AVAILABLE)},
        ),
    ]
    schema_: Annotated[
        str | None,
        Field(alias="schema", description="Fields of json as Spark DDL, e.g. `user STRING, amount DOUBLE`."),
    ] = None

    @model_serializer
    def _short(self) -> Any:
        return self.format if self.schema_ is None else {"format": self.format, "schema": self.schema_}

    def to_format(self) -> formats.Format:
        return formats.Format(self.format, self.schema_)


def _format(value: Any) -> Any:
    if isinstance(value, str):
        value = {"format": value}
    if isinstance(value, dict) and isinstance(value.get("format"), str):
        one_of(value["format"], formats.AVAILABLE, formats.NOT_YET)
        schema = value.get("schema")
        if isinstance(schema, str):
            if value["format"] != "json":
                refuse(f"format {value['format']} has no schema", "leave `schema` out")
            try:
                ddl.fields_of(schema)
            except Invalid as error:
                refuse(f"schema '{schema}': {error.message}", error.fix)
    elif not isinstance(value, dict):
        raise PydanticCustomError("string_type", "not a string")
    return value


def _source_format(spec: FormatSpec) -> FormatSpec:
    if spec.format == "json" and spec.schema_ is None:
        refuse("json needs a schema", f'write {{format: json, schema: "{ddl.EXAMPLE}"}}')
    return spec


FormatField = Annotated[FormatSpec, BeforeValidator(_format, json_schema_input_type=str | FormatSpec)]
"""A format to write in; json needs no schema."""
SourceFormatField = Annotated[FormatField, AfterValidator(_source_format)]
"""A format to read."""
