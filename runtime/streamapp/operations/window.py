# SPDX-License-Identifier: Apache-2.0
"""`window`: windows in event time, of a `groupBy`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import Field

from streamapp.companions import Choice, Rule, Rules
from streamapp.durations import format_duration, parse_duration
from streamapp.errors import Problem
from streamapp.fields import Model, PositiveDuration
from streamapp.nodes import Columns
from streamapp.nodes.columns import with_event_time
from streamapp.nodes.pairs import Pairs, names_of
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
        reported_for="every",
    ),
    Rule("every", "`every` is for hopping windows", "remove it, or write hopping", needs=("hopping",)),
)
MOST_WINDOWS = 1_000
"""The most hopping windows that one record may be in: each is a row of its own, for Spark's planner too."""


class WindowSpec(Model):
    """Windows in event time."""

    tumbling: Annotated[PositiveDuration | None, Field(description="Windows of this size, one after the other.")] = None
    hopping: Annotated[PositiveDuration | None, Field(description="Windows of this size, overlapping.")] = None
    every: Annotated[PositiveDuration | None, Field(description="With hopping: how often a window starts.")] = None
    session: Annotated[
        PositiveDuration | None,
        Field(description="Windows that last as long as a record comes at most this long after the one before."),
    ] = None
    sliding: Annotated[
        PositiveDuration | None,
        Field(
            description="Windows of records at most this far apart: for each record one that ends with it, and one "
            "that begins right behind it."
        ),
    ] = None


Given = Annotated[WindowSpec | None, Field(description="With groupBy: windows in event time.")]
"""The field of the manifest."""


@dataclass(frozen=True)
class Window:
    """Windows in event time."""

    kind: str
    """`tumbling`, `hopping`, `session` or `sliding`."""
    size_ms: int
    """The length of a window; for a session the gap: how far apart two records may be that follow each other in it."""
    advance_ms: int
    """How often one starts, from 1970 on; 0 where records say when."""

    @classmethod
    def of(cls, node: str, spec: WindowSpec, making: Making) -> Self:
        """The windows of the node of that name."""
        if spec.tumbling is not None:
            size = parse_duration(spec.tumbling)
            return cls("tumbling", size, size)
        if spec.session is not None:
            return cls("session", parse_duration(spec.session), 0)
        if spec.sliding is not None:
            return cls("sliding", parse_duration(spec.sliding), 0)
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
    def of_records(self) -> bool:
        """Whether records say where its windows are."""
        return self.kind in ("session", "sliding")

    @property
    def shape(self) -> Any:
        """The part that says which windows there are, as plain data."""
        return [self.kind, self.size_ms] if self.of_records else [self.size_ms, self.advance_ms]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the key that it adds."""
        return ("window_start", "window_end")

    @property
    def description(self) -> str:
        """The windows in the manifest's terms."""
        if self.kind == "session":
            return f"sessions with gaps of at most {format_duration(self.size_ms)}"
        text = f"{self.kind} window {format_duration(self.size_ms)}"
        return text + (f" every {format_duration(self.advance_ms)}" if self.kind == "hopping" else "")


def group_columns(by: Pairs, window: Window | None, values: Pairs) -> Columns:
    """The columns of a table of groups: its key is the group, and the window where there is one."""
    added = window.columns if window is not None else ()
    return with_event_time((*names_of(by), *added), names_of(values))
