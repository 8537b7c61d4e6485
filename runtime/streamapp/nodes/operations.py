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

from streamapp.formats import Format
from streamapp.formats.ddl import fields_of
from streamapp.nodes.columns import Columns, of_source
from streamapp.nodes.node import Node, NodeExpression, OneInput, Role
from streamapp.patterns import matches


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


def _format(form: Format) -> str:
    return form.name if form.schema is None else f"{form.name}({' '.join(form.schema.split())})"
