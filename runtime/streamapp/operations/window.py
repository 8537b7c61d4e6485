# SPDX-License-Identifier: Apache-2.0
"""`window`: windows in event time, of a `groupBy`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Self

from pydantic import Field

from streamapp.companions import Choice, Rule, Rules
from streamapp.durations import format_duration, parse_duration
from streamapp.errors import Problem
from streamapp.fields import Model, PositiveDuration
from streamapp.operations.making import Making

A_WINDOW = "window: {tumbling: 5 minutes}"
"""An example."""
KINDS = Choice(("tumbling", "hopping", "session", "sliding"), "says no kind of window", f"write e.g. {A_WINDOW}", "has")
RULES: Rules = (
    KINDS,
    Rule(
        "hopping",
        "`every` is missing",
        "say how often a window starts, e.g. every: 1 minute",
        needs=("every",),
        told="every",
    ),
    Rule(
        "tumbling",
        "`every` is for hopping windows",
        "remove it, or write hopping",
        excludes=("every",),
        told="every",
    ),
)
MOST_WINDOWS = 1_000
"""Hopping windows that one record may be in: each is a row of its own, for Spark's planner too."""


class WindowSpec(Model):
    """Windows in event time."""

    tumbling: Annotated[PositiveDuration | None, Field(description="Windows of this size, one after the other.")] = None
    hopping: Annotated[PositiveDuration | None, Field(description="Windows of this size, overlapping.")] = None
    every: Annotated[PositiveDuration | None, Field(description="With hopping: how often a window starts.")] = None


Given = Annotated[WindowSpec | None, Field(description="With groupBy: windows in event time.")]
"""The field of the manifest."""


@dataclass(frozen=True)
class Window:
    """Windows of `size_ms`, a new one every `advance_ms`, aligned to the epoch."""

    kind: str
    """`tumbling` or `hopping`."""
    size_ms: int
    advance_ms: int

    @classmethod
    def of(cls, node: str, spec: WindowSpec, making: Making) -> Self:
        """The windows of the node of that name."""
        if spec.tumbling is not None:
            size = parse_duration(spec.tumbling)
            return cls("tumbling", size, size)
        size, every = parse_duration(spec.hopping or "1s"), parse_duration(spec.every or "1s")
        if spec.hopping is not None and every > size:
            making.problems.append(
                Problem(
                    node,
                    "window.every",
                    spec.every,
                    f"`every: {spec.every}` is longer than the window: records would fall between two",
                    "make it at most the size",
                )
            )
        if spec.hopping is not None and spec.every is not None and size > MOST_WINDOWS * every:
            making.problems.append(
                Problem(
                    node,
                    "window.every",
                    spec.every,
                    f"`every: {spec.every}` puts each record into {-(-size // every):,} windows of {spec.hopping}",
                    f"make it longer: a record may be in {MOST_WINDOWS:,} windows",
                )
            )
        return cls("hopping", size, every)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the key that it adds."""
        return ("window_start", "window_end")

    @property
    def description(self) -> str:
        """In the manifest's terms."""
        text = f"{self.kind} window {format_duration(self.size_ms)}"
        return text + (f" every {format_duration(self.advance_ms)}" if self.kind == "hopping" else "")
