# SPDX-License-Identifier: Apache-2.0
"""`with`: adds columns."""

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
from streamapp.origins import all_computed
from streamapp.outline import Outline

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec

Given = Annotated[Expressions | None, Field(alias="with", description="Adds columns: column to expression.")]
"""The field of the manifest."""


@dataclass(frozen=True)
class With(Mapping):
    """Adds columns to the value, or replaces those of the same name. All see the input's columns, not each
    other."""

    operation: ClassVar[str] = "with"
    outline: ClassVar[Outline] = Outline(columns=(("with",),))

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> tuple[Self, ...]:
        return (cls(spec.name, making.input, pairs_of(spec.with_ or {})),)

    def output_columns(self, inputs: Sequence[Columns]) -> Columns:
        return inputs[0].with_added(names_of(self.columns))

    def origins(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Origins:
        return {**before[0], **all_computed(self.columns, before[0])}


class WithStep(Steps):
    """The builder's method."""

    def with_columns(self, name: str, columns: ColumnMap | None = None, /, **more: str) -> Self:
        """Adds columns, or replaces those of the same name.

        >>> from streamapp.builder import StreamBuilder
        >>> lines = StreamBuilder("app").stream("lines", topic="text")
        >>> lines.with_columns("sized", size="length(value)").builder.build().spec.topology[1].with_
        {'size': 'length(value)'}
        """
        found: Self = self._then(name, **{"with": {**(columns or {}), **more}})
        return found
