# SPDX-License-Identifier: Apache-2.0
"""Nodes that the passes make, and none of the manifest's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from streamapp.nodes.columns import Columns
from streamapp.nodes.node import Node, OneInput


@dataclass(frozen=True)
class RepartitionSource(Node):
    """Reads an internal topic, and so goes on with the output of `upstream`, another sub-topology's node."""

    topic: str
    upstream: str
    columns: Columns = field(default_factory=Columns)
    """What `upstream` gives, so that a sub-topology is understood by itself."""

    operation: ClassVar[str] = "hop in"
    source: ClassVar[bool] = True

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        return self.columns

    def description(self, inputs: Sequence[Columns]) -> str:
        return f"topic {self.topic}"


@dataclass(frozen=True)
class RepartitionSink(OneInput):
    """Writes its input to an internal topic, for another sub-topology to go on with."""

    topic: str

    operation: ClassVar[str] = "hop out"
    sink: ClassVar[bool] = True

    def description(self, inputs: Sequence[Columns]) -> str:
        return f"topic {self.topic}"


@dataclass(frozen=True)
class DeadLetter(OneInput):
    """Writes the unreadable records of its input, a Stream, as they came, to a topic."""

    topic: str

    operation: ClassVar[str] = "dead letters"
    sink: ClassVar[bool] = True

    def description(self, inputs: Sequence[Columns]) -> str:
        return f"topic {self.topic}"
