# SPDX-License-Identifier: Apache-2.0
"""One frozen class per operation. Building them does nothing.

Pairs of (column, expression) that come from a map of the manifest are sorted by column, because Kubernetes
sorts the keys of maps and a manifest must mean the same before and after. Pairs that come from a list keep
its order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from streamapp.formats import Format
from streamapp.nodes.columns import Columns
from streamapp.patterns import matches

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Node:
    """A step of the topology; `name` is unique in it."""

    name: str

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the nodes whose output this one reads, in order."""
        one = getattr(self, "input", None)
        return () if one is None else (one,)

    @property
    def stateful(self) -> bool:
        """True when the node keeps state, and so needs its input grouped by key."""
        return isinstance(self, Aggregate | Join)

    @property
    def source(self) -> bool:
        """True when the node reads a topic."""
        return isinstance(self, Stream | RepartitionSource)

    @property
    def sink(self) -> bool:
        """True when the node writes a topic."""
        return isinstance(self, Sink | RepartitionSink | DeadLetter)


@dataclass(frozen=True)
class Stream(Node):
    """Topics as a stream: either `topics` or a `pattern` (a regular expression for whole topic names)."""

    topics: tuple[str, ...]
    pattern: str | None
    key: Format
    value: Format
    timestamp: str | None
    """Event time: an expression, `processing` (when it is read), or None: the record's own."""

    def reads(self, topic: str) -> bool:
        """Whether it reads that topic."""
        return topic in self.topics or (self.pattern is not None and matches(self.pattern, topic))


@dataclass(frozen=True)
class Filter(Node):
    """Keeps what the condition is true for (null is not true); on a table, what stops matching is deleted."""

    input: str
    condition: str


@dataclass(frozen=True)
class Select(Node):
    """Replaces the value's columns; the key and the record's own columns stay."""

    input: str
    columns: Pairs


@dataclass(frozen=True)
class With(Node):
    """Adds columns to the value, or replaces those of the same name. All see the input's columns, not each
    other."""

    input: str
    columns: Pairs


@dataclass(frozen=True)
class FlatMap(Node):
    """One record per element of an array, which becomes `column`; the other columns are repeated."""

    input: str
    column: str
    array: str


@dataclass(frozen=True)
class Python(Node):
    """What a function of the user's makes of each record, or of each batch of them: it replaces the value's columns.

    On a stream a record may become none or several; on a table one that becomes none is deleted.
    """

    input: str
    function: str
    """`module:name`."""
    mode: str
    """`row`, `pandas` or `arrow`: what the function is given, and what it returns."""
    schema: str
    """The columns that it returns, as Spark's DDL."""


@dataclass(frozen=True)
class KeyBy(Node):
    """Makes columns of the value, or the record's own, the key."""

    input: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Merge(Node):
    """All records of several streams with the same columns."""

    sources: tuple[str, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.sources


@dataclass(frozen=True)
class Branch(Node):
    """Where a stream is split; what goes where is said by its arms."""

    input: str
    arms: tuple[str, ...]


@dataclass(frozen=True)
class Arm(Node):
    """One branch: what its condition is true for (None: everything), and none of the `earlier` arms'
    conditions."""

    input: str
    """The Branch."""
    condition: str | None
    earlier: tuple[str, ...]


@dataclass(frozen=True)
class Window:
    """Windows of `size_ms`, a new one every `advance_ms`, aligned to the epoch."""

    kind: str
    """`tumbling` or `hopping`."""
    size_ms: int
    advance_ms: int


@dataclass(frozen=True)
class Aggregate(Node):
    """A table: one row per group (and window) with the aggregates of the group's records."""

    input: str
    by: Pairs
    """Group columns (name, expression), in the key's order."""
    columns: Pairs
    """Aggregates (name, expression), sorted by name."""
    window: Window | None
    grace_ms: int
    emit: str
    """`updates`, or `final`: once per window, when it closes."""
    store: str


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

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.left, self.right)

    @property
    def aliases(self) -> tuple[str, str]:
        """The names that `select` has for the two sides: those of the user's own nodes."""
        return (self.left_as or self.left, self.right_as or self.right)


@dataclass(frozen=True)
class Sink(Node):
    """Writes a topic. Without formats: the key as text (JSON when of several columns), the value as JSON."""

    input: str
    topic: str
    key: Format | None
    value: Format | None
    partitions: int | None


@dataclass(frozen=True)
class RepartitionSource(Node):
    """Reads an internal topic, and so goes on with the output of `upstream`, another sub-topology's node."""

    topic: str
    upstream: str
    columns: Columns = field(default_factory=Columns)
    """What `upstream` gives, so that a sub-topology is understood by itself."""


@dataclass(frozen=True)
class RepartitionSink(Node):
    """Writes its input to an internal topic, for another sub-topology to go on with."""

    input: str
    topic: str


@dataclass(frozen=True)
class DeadLetter(Node):
    """Writes a source's unreadable records, as they came, to a topic."""

    input: str
    """The Stream."""
    topic: str


@dataclass(frozen=True)
class Broken(Node):
    """A node of the manifest that could not be understood. It stands in for it, so that the rest can be
    checked."""

    given: bool = True
    """False when there is no such node: it stands for an input that is missing."""


def is_given(node: Node) -> bool:
    """False for what only stands for an input that is missing."""
    return not isinstance(node, Broken) or node.given


AnyNode = TypeVar("AnyNode", bound=Node)


def with_inputs(node: AnyNode, renamed: Mapping[str, str]) -> AnyNode:
    """The node reading other nodes, by old name to new name. A join keeps its sides' names for its `select`.

    >>> with_inputs(Filter("f", "a", "x > 1"), {"a": "b"})
    Filter(name='f', input='b', condition='x > 1')
    """
    if not any(name in renamed for name in node.inputs):
        return node
    if isinstance(node, Join):
        left, right = node.aliases
        return replace(
            node,
            left=renamed.get(node.left, node.left),
            right=renamed.get(node.right, node.right),
            left_as=left,
            right_as=right,
        )
    if isinstance(node, Merge):
        return replace(node, sources=tuple(renamed.get(name, name) for name in node.sources))
    return replace(node, input=renamed[node.inputs[0]])  # type: ignore[call-arg]
