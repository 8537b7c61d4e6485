# SPDX-License-Identifier: Apache-2.0
"""`stream`: reads topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field, model_validator

from streamapp.companions import Choice, Rules, faults, without_from
from streamapp.durations import parse_duration
from streamapp.errors import Problem
from streamapp.fields import Duration, FormatSpec, Model, SourceFormatField, refuse
from streamapp.formats import Format
from streamapp.formats.ddl import fields_of
from streamapp.nodes import Columns, Node, NodeExpression, Origin, Origins, Role, Topology
from streamapp.nodes.columns import of_source
from streamapp.operations.making import Making
from streamapp.operations.steps import F, FormatLike, Starts, given, written_format
from streamapp.outline import Outline
from streamapp.patterns import matches
from streamapp.scope import check_expression, require_deterministic

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec

PLACES: Rules = (
    Choice(
        ("topic", "topics", "pattern"), "`topic` is missing", "name the topic to read, e.g. topic: orders", "there are"
    ),
)
MOST_TOPICS = 500
"""The most topics that one node may name."""
_RECORD_TYPES = {
    "timestamp": "timestamp",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "headers": "array<struct>",
}
_FORMAT_TYPES = {
    "text": "string",
    "bytes": "binary",
    "integer": "int",
    "long": "bigint",
    "double": "double",
    "bigendian-integer": "int",
    "bigendian-long": "bigint",
    "bigendian-double": "double",
}


class StreamSpec(Model):
    """A topic, several, or all that match a pattern, as a stream."""

    topic: Annotated[str | None, Field(description="The topic to read.")] = None
    topics: Annotated[
        list[str] | None,
        Field(min_length=1, max_length=MOST_TOPICS, description="Several topics to read as one stream."),
    ] = None
    pattern: Annotated[
        str | None, Field(description="A regular expression; every topic it matches as a whole is read.")
    ] = None
    key: Annotated[SourceFormatField, Field(description="Format of the key.")] = FormatSpec(format="text")
    value: Annotated[SourceFormatField, Field(description="Format of the value.")] = FormatSpec(format="text")
    timestamp: Annotated[
        str | None,
        Field(description="Event time: an expression, or `processing`. Default: the record's own timestamp."),
    ] = None
    max_ahead: Annotated[
        Duration,
        Field(description="How far an extracted event time may be ahead of the record's own timestamp."),
    ] = "1 hour"

    @model_validator(mode="after")
    def _one_place(self) -> StreamSpec:
        for fault in faults(PLACES, self.model_dump(exclude_none=True)):
            refuse(fault.message, fault.fix)
        return self


Given = Annotated[StreamSpec | None, Field(description="Reads topics.")]
"""The field of the manifest."""


@dataclass(frozen=True)
class Stream(Node):
    """Topics as a stream: either `topics` or a `pattern` (a regular expression for whole topic names)."""

    topics: tuple[str, ...]
    pattern: str | None
    key: Format
    value: Format
    timestamp: str | None
    """Event time: an expression, `processing` (when it is read), or None: the record's own."""
    max_ahead_ms: int = 3_600_000
    """How far an extracted event time may be ahead of the record's own timestamp; a later one makes a bad record."""

    operation: ClassVar[str] = "stream"
    outline: ClassVar[Outline] = Outline(
        rules=(without_from("stream", "`from` is not for a stream, which reads topics"),),
        inner_rules={"stream": PLACES},
        expressions=(("stream", "timestamp"),),
        aside=(("stream", "key"),),
    )
    source: ClassVar[bool] = True

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> tuple[Self, ...]:
        stream = spec.stream
        assert stream is not None
        topics = (stream.topic,) if stream.topic is not None else tuple(stream.topics or ())
        key, value = stream.key.to_format(), stream.value.to_format()
        ahead = parse_duration(stream.max_ahead)
        return (cls(spec.name, topics, stream.pattern, key, value, stream.timestamp, ahead),)

    def as_stream(self) -> Stream:
        """The topics' records as a stream."""
        return Stream(self.name, self.topics, self.pattern, self.key, self.value, self.timestamp, self.max_ahead_ms)

    @property
    def topics_read(self) -> tuple[str, ...]:
        return self.topics

    @property
    def pattern_read(self) -> str | None:
        return self.pattern

    @property
    def makes_bad_records(self) -> bool:
        formats = self.key.can_be_malformed or self.value.can_be_malformed
        return formats or self.timestamp not in (None, "processing")

    def reads(self, topic: str) -> bool:
        return topic in self.topics or (self.pattern is not None and matches(self.pattern, topic))

    def expressions(self) -> tuple[NodeExpression, ...]:
        if self.timestamp is None or self.timestamp == "processing":
            return ()
        return (NodeExpression(Role.TIMESTAMP, "stream.timestamp", self.timestamp),)

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        if self.value.single_value:
            return of_source(("value",))
        return of_source(tuple(name for name, _ in fields_of(self.value.schema or "")))

    def description(self, inputs: Sequence[Columns]) -> str:
        if self.pattern is not None:
            where = f"topics matching /{self.pattern}/"
        else:
            where = ("topic " if len(self.topics) == 1 else "topics ") + ", ".join(self.topics)
        time = f", event time {self.timestamp}" if self.timestamp is not None else ""
        return f"{where}, key {_in_words(self.key)}, value {_in_words(self.value)}{time}"

    def check(self, topology: Topology) -> Iterator[Problem]:
        for used in self.expressions():
            yield from check_expression(self.name, used.field, used.text, topology.columns(self.name))
            yield from require_deterministic(
                self.name,
                used.field,
                used.text,
                "a record's event time must not change",
                "use columns of the record, or timestamp: processing",
            )

    def origins(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Origins:
        key = ("field", _FORMAT_TYPES.get(self.key.name, self.key.schema), "key")
        found: dict[str, Origin] = {name: ("field", kind, name) for name, kind in _RECORD_TYPES.items()}
        found |= {"key": key, "__key": key}
        if self.value.single_value:
            return {**found, "value": ("field", _FORMAT_TYPES[self.value.name], "value")}
        fields = fields_of(self.value.schema or "")
        return {**found, **{name.lower(): ("field", kind, name.lower()) for name, kind in fields}}


def _in_words(form: Format) -> str:
    return form.name if form.schema is None else f"{form.name}({' '.join(form.schema.split())})"


class StreamStart(Starts[F]):
    """The builder's method."""

    def stream(
        self,
        name: str,
        *,
        topic: str | None = None,
        topics: list[str] | None = None,
        pattern: str | None = None,
        key: FormatLike | None = None,
        value: FormatLike | None = None,
        timestamp: str | None = None,
    ) -> F:
        """A topic, several, or all that match a pattern, as a stream.

        >>> from streamapp.builder import StreamBuilder
        >>> StreamBuilder("app").stream("lines", topic="text").builder.build().spec.topology[0].stream.topic
        'text'
        """
        written = given(topic=topic, topics=topics, pattern=pattern, timestamp=timestamp)
        return self._add(name, None, stream=written | given(key=written_format(key), value=written_format(value)))
