# SPDX-License-Identifier: Apache-2.0
"""`filter`: keeps some records. Its expression is checked by its role, and it has no state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

from pydantic import Field

from streamapp.nodes import Columns, NodeExpression, Role
from streamapp.nodes.node import OneInput
from streamapp.operations.steps import Steps

Given = Annotated[str | None, Field(description="Keeps records for which the expression is true.")]
"""The field of the manifest."""


@dataclass(frozen=True)
class Filter(OneInput):
    """Keeps what the condition is true for (null is not true); on a table, what stops matching is deleted."""

    condition: str

    operation: ClassVar[str] = "filter"

    @classmethod
    def of(cls, name: str, source: str, given: str) -> Self:
        return cls(name, source, given)

    def expressions(self) -> tuple[NodeExpression, ...]:
        return (NodeExpression(Role.CONDITION, "filter", self.condition),)

    def description(self, inputs: Sequence[Columns]) -> str:
        return self.condition


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
