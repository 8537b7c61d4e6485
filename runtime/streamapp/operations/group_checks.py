# SPDX-License-Identifier: Apache-2.0
"""The checks of `groupBy`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Protocol

from streamapp.errors import Problem, near_miss
from streamapp.expressions import quote, read_expression
from streamapp.nodes import TABLE, Columns, Topology
from streamapp.nodes.pairs import Pairs, names_of
from streamapp.operations.window import Window
from streamapp.scope import check_expression, check_names, require_deterministic

_RETRACTABLE = frozenset({"avg", "count", "mean", "sum"})
"""Aggregates that a table's row can be taken out of again. For others the row is kept."""
FOLDED = "acc"
"""The name that `reduce` uses for the value of a group so far."""
_RECOMPUTED = "an epoch that is run again would put the record elsewhere"
_BEFORE = "compute it in a `with` node before"


class Grouping(Protocol):
    """A `groupBy`, or the part of a cogroup for one of its streams."""

    @property
    def name(self) -> str:
        """The node's name."""

    @property
    def input(self) -> str:
        """The node that it reads."""

    @property
    def by(self) -> Pairs:
        """Group columns."""

    @property
    def columns(self) -> Pairs:
        """Aggregates."""

    @property
    def reduce(self) -> Pairs:
        """In place of aggregates: columns, and how a record changes them."""

    @property
    def reduced(self) -> tuple[str, ...]:
        """The columns of `reduce`."""

    @property
    def values(self) -> Pairs:
        """The aggregates, or the columns of `reduce` with their expressions: those that it has."""

    @property
    def top(self) -> object | None:
        """The `top`, which is checked in place of its one aggregate."""

    @property
    def window(self) -> Window | None:
        """Its windows."""


def is_retractable(text: str) -> bool:
    """Whether a row can be taken out of this again, without the other rows."""
    aggregate = read_expression(text)
    return aggregate.aggregates <= _RETRACTABLE and not aggregate.counts_distinct


def check_groups(node: Grouping, topology: Topology) -> Iterator[Problem]:
    """The problems of a `groupBy` in its place."""
    if topology.kind(node.input) == TABLE:
        yield from _check_windowless(node)
    columns = topology.columns(node.input)
    yield from check_names(node.name, "groupBy", node.by)
    yield from check_names(node.name, "aggregate" if node.columns else "reduce", node.values)
    yield from _check_groups(node, columns)
    if node.top is None:
        yield from _check_values(node, columns)
    yield from _check_reduced(node, columns)


def _check_windowless(node: Grouping) -> Iterator[Problem]:
    """A problem where a group over a table has windows."""
    if node.window is not None:
        message = f"its input '{node.input}' is a table, whose rows have no time of their own to be in a window of"
        fix = f"read its changes as a stream, with a `toStream` node behind '{node.input}'"
        yield Problem(node.name, "window", None, message, fix)


def _check_groups(node: Grouping, columns: Columns) -> Iterator[Problem]:
    for name, text in node.by:
        written = f"groupBy.{name}"
        yield from check_expression(node.name, written if quote(name) != text else "groupBy", text, columns)
        yield from require_deterministic(node.name, written, text, _RECOMPUTED, _BEFORE)
    for name in names_of(node.by):
        if node.window is not None and name.lower() in node.window.columns:
            message = f"`{name}` is also a column of the window"
            yield Problem(node.name, "groupBy", name, message, "give it another name")


def _check_values(node: Grouping, columns: Columns) -> Iterator[Problem]:
    groups = names_of(node.by)
    taken = {name.lower(): "groupBy" for name in groups}
    if node.window is not None:
        taken |= dict.fromkeys(node.window.columns, "the window")
    for name, text in node.values:
        field = f"{'aggregate' if node.columns else 'reduce'}.{name}"
        if name.lower() in taken:
            message = f"column `{name}` is already one of {taken[name.lower()]}"
            yield Problem(node.name, field, None, message, "give it another name")
        if node.columns:
            yield from check_expression(node.name, field, text, columns, aggregate=True, groups=groups)
        if node.reduce or read_expression(text).aggregate:
            yield from require_deterministic(node.name, field, text, "state could not be rebuilt", _BEFORE)


def _check_reduced(node: Grouping, columns: Columns) -> Iterator[Problem]:
    if node.reduce and columns.find(FOLDED) is not None:
        message = f"its input '{node.input}' has a column `{FOLDED}`, which is what `reduce` calls the value so far"
        yield Problem(node.name, "reduce", None, message, "rename the column, with a `select` node before")
    reduced = {name.lower() for name in node.reduced}
    for name, text in node.reduce:
        field = f"reduce.{name}"
        if columns.known and columns.find(name) is None:
            message = f"`{name}` is no column of '{node.input}', and a group begins with its first record"
            fix = near_miss(name, columns.fields) or f"compute `{name}` in a `with` node before"
            yield Problem(node.name, field, None, message, fix)
        yield from check_expression(
            node.name, field, text, replace(columns, meta=(*columns.meta, FOLDED, *node.reduced))
        )
        for parts in read_expression(text).columns:
            if parts[0].lower() == FOLDED and (len(parts) < 2 or parts[1].lower() not in reduced):
                message = f"`{'.'.join(parts)}` is no value so far: only columns of this `reduce` have one"
                fix = f"there are: {', '.join(f'{FOLDED}.{known}' for known in node.reduced)}"
                yield Problem(node.name, field, text, message, fix)
        yield from _check_mergeable(node, field, text, columns)


def _check_mergeable(node: Grouping, field: str, text: str, columns: Columns) -> Iterator[Problem]:
    """Problems of expressions that use the record in windows that may become one: two windows then have their values so
    far, and no record."""
    if node.window is None or not node.window.of_records:
        return
    reduced = {name.lower() for name in node.reduced}
    for parts in read_expression(text).columns:
        if parts[0].lower() not in (FOLDED, *reduced) and columns.find(parts[0]) is not None:
            message = (
                f"`{parts[0]}` is no column of this `reduce`, which also makes one of two {node.window.kind} windows"
            )
            fix = f"a window has the columns of `reduce` alone: add `{parts[0]}`, or compute what it takes of it before"
            yield Problem(node.name, field, text, message, f"{fix}, in a `with` node")
