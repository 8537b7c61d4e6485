# SPDX-License-Identifier: Apache-2.0
"""Nodes that stand for none of the manifest's operations: the passes make them, or the reading of a manifest with
mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from streamapp.nodes.columns import Columns
from streamapp.nodes.node import STREAM, Node, OneInput


@dataclass(frozen=True)
class RepartitionSource(Node):
    """Reads an internal topic, and so goes on with the output of `upstream`, another sub-topology's node."""

    topic: str
    upstream: str
    columns: Columns = field(default_factory=Columns)
    """The columns of `upstream`'s output, so that a sub-topology is understood by itself."""

    kind: str = STREAM
    signed: bool = False
    """Whether it has the old and the new row of each change of a table, each with a sign."""
    written_by: str = field(default="", kw_only=True)
    """The sub-topology whose stream time goes with its records; empty where nothing goes by it."""
    writers_lag_ms: int = field(default=0, kw_only=True)
    """By how much the results of that sub-topology may lag behind what is closed there (`lag_ms` of nodes)."""

    operation: ClassVar[str] = "hop in"
    source: ClassVar[bool] = True
    internal: ClassVar[bool] = True

    @property
    def topics_read(self) -> tuple[str, ...]:
        return (self.topic,)

    def output_kind(self, inputs: Sequence[str]) -> str:
        return self.kind

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        return self.columns

    def description(self, inputs: Sequence[Columns]) -> str:
        return f"topic {self.topic}" + (", changes" if self.signed else "")


@dataclass(frozen=True)
class MovesSource(RepartitionSource):
    """Reads the changes of a table's rows: each row is brought to the key that it names. If it named another key
    before, that key gets a record of its leaving."""

    by: tuple[str, ...] = ()
    """The columns that name a key."""

    operation: ClassVar[str] = "moves in"

    def description(self, inputs: Sequence[Columns]) -> str:
        return f"topic {self.topic}, changes, each by {', '.join(self.by)}"


@dataclass(frozen=True)
class _WritesInput(OneInput):
    """A sink that the compiler puts behind a node of the manifest."""

    topic: str

    sink: ClassVar[bool] = True

    @property
    def topics_written(self) -> tuple[str, ...]:
        return (self.topic,)

    @property
    def owner(self) -> str:
        return self.input

    def description(self, inputs: Sequence[Columns]) -> str:
        return f"topic {self.topic}"


@dataclass(frozen=True)
class RepartitionSink(_WritesInput):
    """Writes its input to an internal topic, for another sub-topology to go on with."""

    signed: bool = False
    """Whether it writes the old and the new row of each change of a table, each with a sign."""
    carries_time: bool = field(default=False, kw_only=True)
    """Whether the topic's readers go by stream time."""

    operation: ClassVar[str] = "hop out"
    internal: ClassVar[bool] = True

    @property
    def timed(self) -> bool:
        return self.carries_time


@dataclass(frozen=True)
class DeadLetter(_WritesInput):
    """Writes the unreadable records of its input, a Stream, as they came, to a topic."""

    operation: ClassVar[str] = "dead letters"


@dataclass(frozen=True)
class LateRecords(_WritesInput):
    """Writes the records that are late for its input, a node with windows or a join of streams, to a topic."""

    field: str = "late"
    """The input's field that names the topic."""

    operation: ClassVar[str] = "late"

    @property
    def topic_field(self) -> str:
        return f"{self.field}.topic"


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
    """False for a node that only stands for an input that is missing."""
    return not isinstance(node, Broken) or node.given
