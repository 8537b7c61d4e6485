# SPDX-License-Identifier: Apache-2.0
"""`flatMap`: one record for each element of an array."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field

from streamapp.errors import Problem
from streamapp.nodes import Columns, NodeExpression, OneInput, Origins, Role, Topology
from streamapp.operations.making import Making
from streamapp.operations.steps import ColumnMap, Steps
from streamapp.origins import digest, expression
from streamapp.outline import Outline
from streamapp.scope import check_expression, check_key_kept, check_names, require_stream

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec

Given = Annotated[
    dict[str, str] | None,
    Field(
        min_length=1,
        max_length=1,
        description="One record for each element of an array: column to array expression.",
    ),
]
"""The field of the manifest."""


@dataclass(frozen=True)
class FlatMap(OneInput):
    """One record per element of an array, which becomes `column`; the other columns are repeated."""

    column: str
    array: str

    operation: ClassVar[str] = "flatMap"
    outline: ClassVar[Outline] = Outline(columns=(("flatMap",),))

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> tuple[Self, ...]:
        ((column, array),) = (spec.flat_map or {}).items()
        return (cls(spec.name, making.input, column, array),)

    @property
    def _field(self) -> str:
        return f"flatMap.{self.column}"

    def expressions(self) -> tuple[NodeExpression, ...]:
        return (NodeExpression(Role.ARRAY, self._field, self.array),)

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        return inputs[0].with_added((self.column,))

    def description(self, inputs: Sequence[Columns]) -> str:
        return f"{self.column} = each of {self.array}"

    def check(self, topology: Topology) -> Iterator[Problem]:
        yield from require_stream(self, topology)
        columns = topology.columns(self.input)
        yield from check_names(self.name, "flatMap", ((self.column, self.array),))
        yield from check_expression(self.name, self._field, self.array, columns)
        yield from check_key_kept(self.name, self._field, self.column, self.array, columns)

    def origins(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Origins:
        return {**before[0], self.column.lower(): digest(["element", expression(self.array, before[0])])}


class FlatMapStep(Steps):
    """The builder's method."""

    def flat_map(self, name: str, columns: ColumnMap | None = None, /, **more: str) -> Self:
        """One record for each element of an array, as a column.

        >>> from streamapp.builder import StreamBuilder
        >>> lines = StreamBuilder("app").stream("lines", topic="text")
        >>> lines.flat_map("words", word="split(value, ' ')").builder.build().spec.topology[1].flat_map
        {'word': "split(value, ' ')"}
        """
        found: Self = self._then(name, flatMap={**(columns or {}), **more})
        return found
