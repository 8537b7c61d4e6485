# SPDX-License-Identifier: Apache-2.0
"""Operations that keep state, one frozen class each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from streamapp.durations import format_duration
from streamapp.nodes.columns import Columns
from streamapp.nodes.node import STREAM, TABLE, Node, NodeExpression, OneInput, Role, StoredTable
from streamapp.nodes.pairs import Pairs, described, placed


@dataclass(frozen=True)
class Window:
    """Windows of `size_ms`, a new one every `advance_ms`, aligned to the epoch."""

    kind: str
    """`tumbling` or `hopping`."""
    size_ms: int
    advance_ms: int


@dataclass(frozen=True)
class Aggregate(OneInput):
    """A table: one row per group (and window) with the aggregates of the group's records."""

    by: Pairs
    """Group columns (name, expression), in the key's order."""
    columns: Pairs
    """Aggregates (name, expression), sorted by name."""
    window: Window | None
    grace_ms: int
    emit: str
    """`updates`, or `final`: once per window, when it closes."""
    store: str

    operation: ClassVar[str] = "groupBy"
    keyed: ClassVar[bool] = True

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    def stored_table(self, store: str) -> StoredTable:
        key, values = (tuple(name for name, _ in pairs) for pairs in (self.by, self.columns))
        return StoredTable(key, values, self.window is not None)

    @property
    def subtopology(self) -> str:
        """The store's name: it lasts as long as the state does, and the node may be renamed."""
        return self.store

    @property
    def output_mode(self) -> str:
        """A table's rows are rewritten until its windows close."""
        return "update" if self.emit == "updates" else "append"

    def expressions(self) -> tuple[NodeExpression, ...]:
        return (*placed(Role.GROUP, "groupBy", self.by), *placed(Role.AGGREGATE, "aggregate", self.columns))

    def output_kind(self, inputs: Sequence[str]) -> str:
        return TABLE

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        window = ("window_start", "window_end") if self.window else ()
        key = (*(name for name, _ in self.by), *window)
        return _with_event_time(key, tuple(name for name, _ in self.columns))

    def hop_name(self, upstream: str) -> str:
        return self.store

    def description(self, inputs: Sequence[Columns]) -> str:
        by = ", ".join(name if name == text.strip("`") else f"{name} = {text}" for name, text in self.by)
        text = f"by {by}: {described(self.columns)}"
        if self.window is not None:
            text += f", {self.window.kind} window {format_duration(self.window.size_ms)}"
            if self.window.kind == "hopping":
                text += f" every {format_duration(self.window.advance_ms)}"
            text += f", grace {format_duration(self.grace_ms)}"
        return text + (", emit final" if self.emit == "final" else "")


@dataclass(frozen=True)
class Join(Node):
    """Pairs of a left and a right record with equal keys and event times at most `within_ms` apart."""

    left: str
    right: str
    by: tuple[str, ...]
    """Columns of the left side, matched in order to the key of the right side."""
    type: str
    within_ms: int
    grace_ms: int
    select: Pairs | None
    """The result's columns; in the expressions a column is `NODE.column`. None: both sides' columns."""
    store: str
    left_as: str = ""
    """How `select` calls the left side, when a cut has put another node in its place."""
    right_as: str = ""

    operation: ClassVar[str] = "join"
    keyed: ClassVar[bool] = True

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.left, self.right)

    @property
    def aliases(self) -> tuple[str, str]:
        """The names that `select` has for the two sides: those of the user's own nodes."""
        return (self.left_as or self.left, self.right_as or self.right)

    def with_inputs(self, renamed: Mapping[str, str]) -> Self:
        """The join keeps its sides' names for its `select`."""
        if not any(name in renamed for name in self.inputs):
            return self
        left, right = (renamed.get(name, name) for name in self.inputs)
        left_as, right_as = self.aliases
        return replace(self, left=left, right=right, left_as=left_as, right_as=right_as)

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    @property
    def subtopology(self) -> str:
        """The store's name: it lasts as long as the state does, and the node may be renamed."""
        return self.store

    def expressions(self) -> tuple[NodeExpression, ...]:
        by = (NodeExpression(Role.KEY, "join.by", name) for name in self.by)
        return (*by, *placed(Role.JOINED, "join.select", self.select or ()))

    def output_kind(self, inputs: Sequence[str]) -> str:
        return STREAM

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        left, right = inputs
        key = self.by or left.key
        if self.select is not None:
            names = tuple(name for name, _ in self.select)
        else:
            names = tuple(dict.fromkeys((*left.fields, *right.fields)))
        keys = {name.lower() for name in key}
        value = tuple(name for name in names if name.lower() not in keys)
        return replace(_with_event_time(key, value), known=left.known and right.known)

    def hop_name(self, upstream: str) -> str:
        return f"{self.store}-{'left' if upstream == self.left else 'right'}"

    def description(self, inputs: Sequence[Columns]) -> str:
        left, right = self.aliases
        by = zip(self.by or inputs[0].key, inputs[1].key, strict=True)
        matched = ", ".join(f"{left}.{ours} = {right}.{theirs}" for ours, theirs in by)
        text = f"{self.type}, {matched}, within {format_duration(self.within_ms)}"
        text += f", grace {format_duration(self.grace_ms)}"
        return text + (f": {described(self.select)}" if self.select is not None else "")


def _with_event_time(key: tuple[str, ...], value: tuple[str, ...]) -> Columns:
    """Of a record's own columns, only its event time is left; a column of that name hides it."""
    hidden = "timestamp" in {name.lower() for name in (*key, *value)}
    return Columns(key, value, () if hidden else ("timestamp",))
