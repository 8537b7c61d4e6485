# SPDX-License-Identifier: Apache-2.0
"""`deduplicate`: lets the first of several records pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field

from streamapp.durations import format_duration, parse_duration
from streamapp.errors import Problem
from streamapp.fields import Model, PositiveDuration
from streamapp.nodes import STREAM, Columns, NodeExpression, OneInput, Origins, Role, Topology
from streamapp.operations.making import Making
from streamapp.operations.steps import Steps, given
from streamapp.outline import Outline
from streamapp.scope import check_column, require_stream

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec


class DeduplicateSpec(Model):
    """Which records are the same, and for how long."""

    by: Annotated[
        list[str], Field(min_length=1, description="Records with equal values in these columns are the same.")
    ]
    within: Annotated[
        PositiveDuration,
        Field(description="How far apart in event time two of the same are for the later one to be left out, at most."),
    ]


Given = Annotated[DeduplicateSpec | None, Field(description="Lets the first of several records pass.")]
"""The field of the manifest."""


@dataclass(frozen=True)
class Deduplicate(OneInput):
    """Leaves a record out if one with the same values in `by`, at most `within` away in event time, has passed."""

    by: tuple[str, ...]
    within_ms: int
    store: str

    operation: ClassVar[str] = "deduplicate"
    outline: ClassVar[Outline] = Outline(aside=(("deduplicate", "within"),))
    keyed: ClassVar[bool] = True

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> tuple[Self, ...]:
        assert spec.deduplicate is not None
        within = parse_duration(spec.deduplicate.within)
        return (cls(spec.name, making.input, tuple(spec.deduplicate.by), within, spec.store or spec.name),)

    @property
    def in_task(self) -> bool:
        return True

    def keeps_task(self, key: Sequence[str]) -> bool:
        return [name.lower() for name in self.by] == [name.lower() for name in key]

    def met_by(self, name: str) -> tuple[str, ...]:
        return self.by

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    def expressions(self) -> tuple[NodeExpression, ...]:
        return tuple(NodeExpression(Role.KEY, "deduplicate.by", name) for name in self.by)

    def output_kind(self, inputs: Sequence[str]) -> str:
        return STREAM

    def hop_name(self, upstream: str) -> str:
        return self.store

    def description(self, inputs: Sequence[Columns]) -> str:
        return f"by {', '.join(self.by)}, within {format_duration(self.within_ms)}"

    def check(self, topology: Topology) -> Iterator[Problem]:
        yield from require_stream(self, topology)
        columns = topology.columns(self.input)
        for i, name in enumerate(self.by):
            hint = "compute it in a `with` node before"
            yield from check_column(self.name, "deduplicate.by", name, columns, hint=hint)
            if name.lower() in [before.lower() for before in self.by[:i]]:
                yield Problem(self.name, "deduplicate.by", name, f"column `{name}` is there twice", "remove one")

    def state_shape(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Any:
        (source,) = before
        return {"operation": "deduplicate", "key": [source.get(name.lower()) for name in self.by]}


class DeduplicateStep(Steps):
    """The builder's method."""

    def deduplicate(self, name: str, *by: str, within: str, store: str | None = None) -> Self:
        """The first of several records with equal values in these columns.

        >>> from streamapp.builder import StreamBuilder
        >>> clicks = StreamBuilder("app").stream("clicks", topic="clicks", value="text")
        >>> once = clicks.deduplicate("once", "value", within="10 minutes")
        >>> once.builder.build().spec.topology[1].deduplicate.within
        '10 minutes'
        """
        found: Self = self._then(name, deduplicate=given(by=list(by), within=within), store=store)
        return found
