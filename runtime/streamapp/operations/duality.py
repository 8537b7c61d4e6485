# SPDX-License-Identifier: Apache-2.0
"""`toTable` and `toStream`: a stream of updates as a table, and a table's changes as a stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field

from streamapp.durations import parse_duration
from streamapp.errors import Problem
from streamapp.fields import Model, PositiveDuration
from streamapp.nodes import STREAM, TABLE, Columns, OneInput, Origins, StoredTable, Topology
from streamapp.nodes.columns import HIDDEN_KEY, with_event_time
from streamapp.operations.making import Making
from streamapp.operations.steps import Steps, given
from streamapp.operations.ttl import TTL, expiring, ttl_in_words
from streamapp.origins import all_declared, kept
from streamapp.outline import Outline

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec


class ToTableSpec(Model):
    """How the table is kept."""

    ttl: Annotated[PositiveDuration | None, Field(description=TTL)] = None


class ToStreamSpec(Model):
    """It has no fields of its own."""


ToTableGiven = Annotated[
    ToTableSpec | None, Field(description="A stream as a table: the latest record of each key. Written `toTable: {}`.")
]
"""The field of the manifest."""
ToStreamGiven = Annotated[
    ToStreamSpec | None, Field(description="A table's changes as a stream of records. Written `toStream: {}`.")
]
"""The field of the manifest."""


@dataclass(frozen=True)
class ToTable(OneInput):
    """Each record is the row of its key from then on; one without a value deletes the row."""

    store: str
    ttl_ms: int = 0
    """How long a row stays that is not updated; 0: for ever."""

    operation: ClassVar[str] = "toTable"
    outline: ClassVar[Outline] = Outline(aside=(("toTable",), ("toTable", "ttl")))
    keyed: ClassVar[bool] = True

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> tuple[Self, ...]:
        assert spec.to_table is not None
        ttl = parse_duration(spec.to_table.ttl or "0s")
        return (cls(spec.name, making.input, spec.store or spec.name, ttl),)

    @property
    def in_task(self) -> bool:
        return True

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    def output_kind(self, inputs: Sequence[str]) -> str:
        return TABLE

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        (columns,) = inputs
        return Columns(columns.key, columns.value, with_event_time(columns.key, columns.value).meta, columns.known)

    def hop_name(self, upstream: str) -> str:
        return self.store

    def description(self, inputs: Sequence[Columns]) -> str:
        return f"by {inputs[0].key_in_words}{ttl_in_words(self.ttl_ms)}"

    def check(self, topology: Topology) -> Iterator[Problem]:
        if topology.kind(self.input) == TABLE and topology.columns(self.input).known:
            message = f"'{self.input}' is a table already"
            yield Problem(self.name, "toTable", None, message, f"read '{self.input}' in its place")

    def origins(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Origins:
        (columns,) = inputs
        return kept((*columns.key, *columns.value, *self.output_columns(inputs).meta), before[0])

    def state_shape(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Any:
        (columns,), (source,) = inputs, before
        return {
            "operation": "table",
            "key": [source[name.lower()] for name in columns.key],
            "values": all_declared(columns.value, source),
            **expiring(self.ttl_ms),
        }

    def stored_table(self, store: str, inputs: Sequence[Columns] = ()) -> StoredTable:
        (columns,) = inputs
        return StoredTable(tuple("key" if name == HIDDEN_KEY else name for name in columns.key), columns.value, False)


@dataclass(frozen=True)
class ToStream(OneInput):
    """A table's changes as records; a deletion is a record without a value."""

    operation: ClassVar[str] = "toStream"
    outline: ClassVar[Outline] = Outline(aside=(("toStream",),))

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> tuple[Self, ...]:
        return (cls(spec.name, making.input),)

    def output_kind(self, inputs: Sequence[str]) -> str:
        return STREAM

    def description(self, inputs: Sequence[Columns]) -> str:
        return f"changes by {inputs[0].key_in_words}"

    def check(self, topology: Topology) -> Iterator[Problem]:
        if topology.kind(self.input) == STREAM and topology.columns(self.input).known:
            message = f"'{self.input}' is a stream already"
            yield Problem(self.name, "toStream", None, message, f"read '{self.input}' in its place")


class DualitySteps(Steps):
    """The builder's methods."""

    def to_table(self, name: str, *, ttl: str | None = None, store: str | None = None) -> Self:
        """The latest record of each key, as a table.

        >>> from streamapp.builder import StreamBuilder
        >>> lines = StreamBuilder("app").stream("lines", topic="text")
        >>> lines.to_table("latest").builder.build().spec.topology[1].operation
        'toTable'
        """
        found: Self = self._then(name, toTable=given(ttl=ttl), store=store)
        return found

    def to_stream(self, name: str) -> Self:
        """A table's changes, as a stream of records.

        >>> from streamapp.builder import StreamBuilder
        >>> users = StreamBuilder("app").table("users", topic="users")
        >>> users.to_stream("changes").builder.build().spec.topology[1].operation
        'toStream'
        """
        found: Self = self._then(name, toStream={})
        return found
