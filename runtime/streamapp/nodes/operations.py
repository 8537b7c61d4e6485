# SPDX-License-Identifier: Apache-2.0
"""Operations without state, one frozen class each. Building them does nothing.

Pairs of (column, expression) that come from a map of the manifest are sorted by column, because Kubernetes
sorts the keys of maps and a manifest must mean the same before and after. Pairs that come from a list keep
its order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from streamapp.errors import shorten
from streamapp.formats import Format
from streamapp.formats.ddl import fields_of
from streamapp.nodes.columns import Columns, of_source
from streamapp.nodes.node import Node, NodeExpression, OneInput, Role
from streamapp.patterns import matches

Pairs = tuple[tuple[str, str], ...]


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
    source: ClassVar[bool] = True

    def reads(self, topic: str) -> bool:
        """Whether it reads that topic."""
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
        return f"{where}, key {_format(self.key)}, value {_format(self.value)}{time}"


@dataclass(frozen=True)
class Select(OneInput):
    """Replaces the value's columns; the key and the record's own columns stay."""

    columns: Pairs

    operation: ClassVar[str] = "select"

    def expressions(self) -> tuple[NodeExpression, ...]:
        return placed(Role.COLUMN, "select", self.columns)

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        return inputs[0].with_values(tuple(name for name, _ in self.columns))

    def description(self, inputs: Sequence[Columns]) -> str:
        return described(self.columns)


@dataclass(frozen=True)
class With(OneInput):
    """Adds columns to the value, or replaces those of the same name. All see the input's columns, not each
    other."""

    columns: Pairs

    operation: ClassVar[str] = "with"

    def expressions(self) -> tuple[NodeExpression, ...]:
        return placed(Role.COLUMN, "with", self.columns)

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        return inputs[0].with_added(tuple(name for name, _ in self.columns))

    def description(self, inputs: Sequence[Columns]) -> str:
        return described(self.columns)


@dataclass(frozen=True)
class FlatMap(OneInput):
    """One record per element of an array, which becomes `column`; the other columns are repeated."""

    column: str
    array: str

    operation: ClassVar[str] = "flatMap"

    def expressions(self) -> tuple[NodeExpression, ...]:
        return placed(Role.ARRAY, "flatMap", ((self.column, self.array),))

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        return inputs[0].with_added((self.column,))

    def description(self, inputs: Sequence[Columns]) -> str:
        return f"{self.column} = each of {self.array}"


@dataclass(frozen=True)
class Python(OneInput):
    """What a function of the user's makes of each record, or of each batch of them: it replaces the value's columns.

    On a stream a record may become none or several; on a table one that becomes none is deleted.
    """

    function: str
    """`module:name`."""
    mode: str
    """`row`, `pandas` or `arrow`: what the function is given, and what it returns."""
    schema: str
    """The columns that it returns, as Spark's DDL."""

    operation: ClassVar[str] = "python"

    @property
    def functions(self) -> tuple[str, ...]:
        return (self.function,)

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        return inputs[0].with_values(tuple(name for name, _ in fields_of(self.schema)))

    def description(self, inputs: Sequence[Columns]) -> str:
        return f"{', '.join(name for name, _ in fields_of(self.schema))} = {self.function}, by {self.mode}"


@dataclass(frozen=True)
class KeyBy(OneInput):
    """Makes columns of the value, or the record's own, the key."""

    columns: tuple[str, ...]

    operation: ClassVar[str] = "keyBy"

    def expressions(self) -> tuple[NodeExpression, ...]:
        return tuple(NodeExpression(Role.KEY, "keyBy", name) for name in self.columns)

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        return inputs[0].keyed_by(self.columns)

    def description(self, inputs: Sequence[Columns]) -> str:
        return ", ".join(self.columns)


@dataclass(frozen=True)
class Merge(Node):
    """All records of several streams with the same columns."""

    sources: tuple[str, ...]

    operation: ClassVar[str] = "merge"

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.sources

    def with_inputs(self, renamed: Mapping[str, str]) -> Self:
        return replace(self, sources=tuple(renamed.get(name, name) for name in self.sources))

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        first = inputs[0]
        meta = tuple(name for name in first.meta if all(name in other.meta for other in inputs))
        return Columns(first.key, first.value, meta, all(other.known for other in inputs))

    def description(self, inputs: Sequence[Columns]) -> str:
        return " + ".join(self.sources)


@dataclass(frozen=True)
class Branch(OneInput):
    """Where a stream is split; what goes where is said by its arms."""

    arms: tuple[str, ...]

    operation: ClassVar[str] = "branch"

    def description(self, inputs: Sequence[Columns]) -> str:
        return "first match of " + ", ".join(self.arms)


@dataclass(frozen=True)
class Arm(OneInput):
    """One arm of its input, a Branch: what its condition is true for (None: everything), and none of the
    `earlier` arms' conditions."""

    condition: str | None
    earlier: tuple[str, ...]

    operation: ClassVar[str] = "when"

    def expressions(self) -> tuple[NodeExpression, ...]:
        own = () if self.condition is None else (NodeExpression(Role.CONDITION, "when", self.condition),)
        return (*own, *(NodeExpression(Role.EARLIER, "when", text) for text in self.earlier))

    def description(self, inputs: Sequence[Columns]) -> str:
        return self.condition or ("the rest" if self.earlier else "everything")


@dataclass(frozen=True)
class Sink(OneInput):
    """Writes a topic. Without formats: the key as text (JSON when of several columns), the value as JSON."""

    topic: str
    key: Format | None
    value: Format | None
    partitions: int | None

    operation: ClassVar[str] = "to"
    sink: ClassVar[bool] = True

    def description(self, inputs: Sequence[Columns]) -> str:
        (columns,) = inputs
        key = self.key.name if self.key else ("json" if len(columns.key) > 1 else "text")
        value = self.value or Format("json")
        single = value.single_value and len(columns.value) == 1
        shown = columns.value[0] if single else "{" + ", ".join(columns.value) + "}"
        return f"topic {self.topic}, key {columns.key_in_words} as {key}, value {shown} as {value.name}"


@dataclass(frozen=True)
class Broken(Node):
    """A node of the manifest that could not be understood. It stands in for it, so that the rest can be
    checked."""

    given: bool = True
    """False when there is no such node: it stands for an input that is missing."""

    operation: ClassVar[str] = "?"

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        return Columns(known=False)


def is_given(node: Node) -> bool:
    """False for what only stands for an input that is missing."""
    return not isinstance(node, Broken) or node.given


def placed(role: Role, operation: str, pairs: Pairs) -> tuple[NodeExpression, ...]:
    """The expressions of a map, each in its place under the operation."""
    return tuple(NodeExpression(role, f"{operation}.{name}", text) for name, text in pairs)


def described(pairs: Pairs) -> str:
    """Columns with their expressions, on one line, shortened."""
    return shorten(", ".join(f"{name} = {text}" for name, text in pairs))


def _format(form: Format) -> str:
    return form.name if form.schema is None else f"{form.name}({' '.join(form.schema.split())})"
