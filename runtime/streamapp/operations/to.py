# SPDX-License-Identifier: Apache-2.0
"""`to`: writes a topic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field

from streamapp.errors import Problem
from streamapp.fields import FormatField, Model, PositiveCount
from streamapp.formats import Format
from streamapp.nodes import Columns, OneInput, Topology
from streamapp.operations.making import Making
from streamapp.operations.steps import FormatLike, Steps, given, written_format
from streamapp.outline import Outline

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec


class SinkSpec(Model):
    """Writes a topic."""

    topic: Annotated[str, Field(description="The topic to write.")]
    key: Annotated[
        FormatField | None, Field(description="Format of the key. Default: text, or json of several columns.")
    ] = None
    value: Annotated[
        FormatField | None, Field(description="Format of the value. Default: json of the other columns.")
    ] = None
    partitions: Annotated[
        PositiveCount | None,
        Field(description="Partitions when the topic is made by us. Default: the broker's."),
    ] = None


Given = Annotated[SinkSpec | None, Field(description="Writes a topic.")]
"""The field of the manifest."""


@dataclass(frozen=True)
class Sink(OneInput):
    """Writes a topic. Without formats: the key as text (JSON when of several columns), the value as JSON."""

    topic: str
    key: Format | None
    value: Format | None
    partitions: int | None

    operation: ClassVar[str] = "to"
    outline: ClassVar[Outline] = Outline(aside=(("to",),))
    sink: ClassVar[bool] = True

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> tuple[Self, ...]:
        to = spec.to
        assert to is not None
        key, value = (form.to_format() if form else None for form in (to.key, to.value))
        return (cls(spec.name, making.input, to.topic, key, value, to.partitions),)

    @property
    def topics_written(self) -> tuple[str, ...]:
        return (self.topic,)

    @property
    def partitions_wanted(self) -> int | None:
        return self.partitions

    def description(self, inputs: Sequence[Columns]) -> str:
        (columns,) = inputs
        key = self.key.name if self.key else ("json" if len(columns.key) > 1 else "text")
        value = self.value or Format("json")
        single = value.single_value and len(columns.value) == 1
        shown = columns.value[0] if single else "{" + ", ".join(columns.value) + "}"
        return f"topic {self.topic}, key {columns.key_in_words} as {key}, value {shown} as {value.name}"

    def check(self, topology: Topology) -> Iterator[Problem]:
        columns = topology.columns(self.input)
        if not columns.known:
            return
        if self.key is not None:
            yield from self._check_format("to.key", self.key, columns.key, "key")
        if self.value is not None:
            yield from self._check_format("to.value", self.value, columns.value, "value")
        elif not columns.value:
            yield Problem(
                self.name,
                "to",
                None,
                "there is no column besides the key to write as a value",
                "add one with a `with` node before",
            )

    def _check_format(self, field: str, form: Format, columns: tuple[str, ...], what: str) -> Iterator[Problem]:
        if form.single_value and len(columns) != 1:
            has = f"{len(columns)} columns: {', '.join(columns)}" if columns else "none"
            fix = "use json, or a `select` node before" if what == "value" else "use json, or leave `key` out"
            yield Problem(
                self.name,
                field,
                form.name,
                f"format {form.name} holds exactly one column, and the {what} has {has}",
                fix,
            )


class SinkStep(Steps):
    """The builder's method."""

    def to(
        self,
        name: str,
        *,
        topic: str,
        key: FormatLike | None = None,
        value: FormatLike | None = None,
        partitions: int | None = None,
    ) -> Self:
        """Writes a topic. Gives the flow that was written, so that more can follow.

        >>> from streamapp.builder import StreamBuilder
        >>> lines = StreamBuilder("app").stream("lines", topic="text")
        >>> lines.to("out", topic="copy").builder.build().spec.topology[1].to.topic
        'copy'
        """
        written = given(topic=topic, key=written_format(key), value=written_format(value), partitions=partitions)
        self._then(name, to=written)
        return self
