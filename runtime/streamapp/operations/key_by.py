# SPDX-License-Identifier: Apache-2.0
"""`keyBy`: makes columns the key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field

from streamapp.errors import Problem
from streamapp.nodes import Columns, NodeExpression, OneInput, Role, Topology
from streamapp.operations.making import Making
from streamapp.operations.steps import Steps
from streamapp.scope import check_column, require_stream

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec

Given = Annotated[list[str] | None, Field(min_length=1, description="Columns that become the key.")]
"""The field of the manifest."""


@dataclass(frozen=True)
class KeyBy(OneInput):
    """Makes columns of the value, or the record's own, the key."""

    columns: tuple[str, ...]

    operation: ClassVar[str] = "keyBy"

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> tuple[Self, ...]:
        return (cls(spec.name, making.input, tuple(spec.key_by or ())),)

    def expressions(self) -> tuple[NodeExpression, ...]:
        return tuple(NodeExpression(Role.KEY, "keyBy", name) for name in self.columns)

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        return inputs[0].keyed_by(self.columns)

    def description(self, inputs: Sequence[Columns]) -> str:
        return ", ".join(self.columns)

    def check(self, topology: Topology) -> Iterator[Problem]:
        yield from require_stream(self, topology)
        columns = topology.columns(self.input)
        for name in self.columns:
            yield from check_column(self.name, "keyBy", name, columns, hint="compute it in a `with` node before")


class KeyByStep(Steps):
    """The builder's method."""

    def key_by(self, name: str, *columns: str) -> Self:
        """Makes columns the key.

        >>> from streamapp.builder import StreamBuilder
        >>> lines = StreamBuilder("app").stream("lines", topic="text")
        >>> lines.key_by("keyed", "value").builder.build().spec.topology[1].key_by
        ['value']
        """
        found: Self = self._then(name, keyBy=list(columns))
        return found
