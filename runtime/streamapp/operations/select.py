# SPDX-License-Identifier: Apache-2.0
"""`select`: replaces the columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field

from streamapp.fields import Expressions
from streamapp.nodes import Columns, Origins
from streamapp.nodes.pairs import names_of, pairs_of
from streamapp.operations.making import Making
from streamapp.operations.mapping import Mapping
from streamapp.operations.steps import ColumnMap, Steps
from streamapp.origins import all_computed, without_value
from streamapp.outline import Outline

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec

Given = Annotated[Expressions | None, Field(description="Replaces the columns: column to expression.")]
"""The field of the manifest."""


@dataclass(frozen=True)
class Select(Mapping):
    """Replaces the value's columns; the key and the record's own columns stay."""

    operation: ClassVar[str] = "select"
    outline: ClassVar[Outline] = Outline(columns=(("select",),))

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> tuple[Self, ...]:
        return (cls(spec.name, making.input, pairs_of(spec.select or {})),)

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        return inputs[0].with_values(names_of(self.columns))

    def origins(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Origins:
        return {**without_value(inputs[0], before[0]), **all_computed(self.columns, before[0])}


class SelectStep(Steps):
    """The builder's method."""

    def select(self, name: str, columns: ColumnMap | None = None, /, **more: str) -> Self:
        """Replaces the columns. Names that are no Python names go into the map.

        >>> from streamapp.builder import StreamBuilder
        >>> lines = StreamBuilder("app").stream("lines", topic="text")
        >>> lines.select("sizes", size="length(value)").builder.build().spec.topology[1].select
        {'size': 'length(value)'}
        """
        found: Self = self._then(name, select={**(columns or {}), **more})
        return found
