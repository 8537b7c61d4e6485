# SPDX-License-Identifier: Apache-2.0
"""`suppress`: holds the updates of a table back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field

from streamapp.durations import format_duration, parse_duration
from streamapp.errors import Problem
from streamapp.fields import Model, PositiveDuration
from streamapp.nodes import STREAM, Columns, OneInput, Origins, Topology
from streamapp.operations.making import Making
from streamapp.operations.steps import Steps
from streamapp.origins import all_typed
from streamapp.outline import Outline

if TYPE_CHECKING:
    from streamapp.manifest.node import NodeSpec


class SuppressSpec(Model):
    """For how long updates are held back."""

    until_time_limit: Annotated[
        PositiveDuration,
        Field(description="How long, in event time, a row waits from its first update; later ones take its place."),
    ]


Given = Annotated[SuppressSpec | None, Field(description="Holds the updates of a table back.")]
"""The field of the manifest."""


@dataclass(frozen=True)
class Suppress(OneInput):
    """The same table with fewer updates: of a row's updates within the limit only the last one goes on."""

    limit_ms: int
    store: str

    operation: ClassVar[str] = "suppress"
    outline: ClassVar[Outline] = Outline(aside=(("suppress", "untilTimeLimit"),))
    keyed: ClassVar[bool] = True

    @classmethod
    def of(cls, spec: NodeSpec, making: Making) -> tuple[Self, ...]:
        assert spec.suppress is not None
        limit = parse_duration(spec.suppress.until_time_limit)
        return (cls(spec.name, making.input, limit, spec.store or spec.name),)

    @property
    def in_task(self) -> bool:
        return True

    @property
    def stores(self) -> tuple[str, ...]:
        return (self.store,)

    @property
    def tables_needed(self) -> tuple[str, ...]:
        return (self.input,)

    @property
    def lag_ms(self) -> int:
        return self.limit_ms

    @property
    def gives_later(self) -> str | None:
        return "the end of their time limit"

    def hop_name(self, upstream: str) -> str:
        return f"{self.store}-{upstream}"

    def description(self, inputs: Sequence[Columns]) -> str:
        return f"each row {format_duration(self.limit_ms)} from its first update on"

    def check(self, topology: Topology) -> Iterator[Problem]:
        if topology.kind(self.input) == STREAM and topology.columns(self.input).known:
            message = f"'{self.input}' is a stream, whose records do not replace each other"
            yield Problem(
                self.name, "suppress", None, message, "make a table of it before, with `toTable` or `groupBy`"
            )

    def state_shape(self, inputs: Sequence[Columns], before: Sequence[Origins]) -> Any:
        (columns,), (source,) = inputs, before
        return {
            "operation": "suppress",
            "key": [source[name.lower()] for name in columns.key],
            # The row that readers know is kept, in the order of its columns.
            "values": list(all_typed(columns.value, source).items()),
        }


class SuppressStep(Steps):
    """The builder's method."""

    def suppress(self, name: str, *, until_time_limit: str, store: str | None = None) -> Self:
        """The same table with fewer updates: a row waits from its first update on, and its last one goes on.

        >>> from streamapp.builder import StreamBuilder
        >>> users = StreamBuilder("app").table("users", topic="users")
        >>> seldom = users.suppress("seldom", until_time_limit="5 minutes")
        >>> seldom.builder.build().spec.topology[1].suppress.until_time_limit
        '5 minutes'
        """
        found: Self = self._then(name, suppress={"untilTimeLimit": until_time_limit}, store=store)
        return found
