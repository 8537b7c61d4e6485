# SPDX-License-Identifier: Apache-2.0
"""`filter`: keeps some records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field

from streamapp.errors import Problem
from streamapp.nodes import Columns, NodeExpression, OneInput, Role, Topology
from streamapp.operations.making import Making
from streamapp.operations.steps import Steps
from streamapp.outline import Outline
from streamapp.scope import check_expression

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec

Given = Annotated[str | None, Field(description="Keeps records for which the expression is true.")]
"""The field of the manifest."""


@dataclass(frozen=True)
class Filter(OneInput):
    """Keeps rows for which the condition is true (null is not); on a table, a row that stops matching is deleted."""

    condition: str

    operation: ClassVar[str] = "filter"
    outline: ClassVar[Outline] = Outline(expressions=(("filter",),))
    row_wise: ClassVar[bool] = True

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> tuple[Self, ...]:
        return (cls(spec.name, making.input, spec.filter or ""),)

    def expressions(self) -> tuple[NodeExpression, ...]:
        return (NodeExpression(Role.CONDITION, "filter", self.condition),)

    def description(self, inputs: Sequence[Columns]) -> str:
        return self.condition

    def check(self, topology: Topology) -> Iterator[Problem]:
        return check_expression(self.name, "filter", self.condition, topology.columns(self.input))


class FilterStep(Steps):
    """The builder's method."""

    def filter(self, name: str, condition: str) -> Self:
        """Keeps records for which the condition is true.

        >>> from streamapp.builder import StreamBuilder
        >>> lines = StreamBuilder("app").stream("lines", topic="text")
        >>> lines.filter("long", "length(value) > 3").builder.build().spec.topology[1].filter
        'length(value) > 3'
        """
        found: Self = self._then(name, filter=condition)
        return found
