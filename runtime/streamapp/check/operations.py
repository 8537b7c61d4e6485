# SPDX-License-Identifier: Apache-2.0
"""Each node in its place: the kind and the columns of what it reads, and its expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streamapp.errors import Problem
from streamapp.expressions import normalise, quote, read_expression
from streamapp.nodes import (
    TABLE,
    Aggregate,
    Arm,
    Branch,
    Columns,
    Join,
    Merge,
    Node,
    Role,
    Stream,
    Topology,
    is_given,
)
from streamapp.scope import (
    check_column,
    check_expression,
    check_joined_expression,
    check_names,
    key_changed,
    listed,
    require_deterministic,
    require_stream,
)

_RECOMPUTED = "an epoch that is run again would put the record elsewhere"


def check_nodes(topology: Topology) -> Iterator[Problem]:
    """Problems of every node, in the topology's order."""
    for node in topology.nodes:
        yield from node.check(topology)
        checker = CHECKERS.get(type(node))
        if checker is not None:
            yield from checker(node, topology)


def _check_stream(node: Stream, topology: Topology) -> Iterator[Problem]:
    for used in node.expressions():
        yield from check_expression(node.name, used.field, used.text, topology.columns(node.name))
        yield from require_deterministic(
            node.name,
            used.field,
            used.text,
            "a record's event time must not change",
            "use columns of the record, or timestamp: processing",
        )


def _check_condition(node: Arm, topology: Topology) -> Iterator[Problem]:
    for used in node.expressions():
        if used.role is Role.CONDITION:
            yield from check_expression(node.name, used.field, used.text, topology.columns(node.input))


def _check_branch(node: Branch, topology: Topology) -> Iterator[Problem]:
    yield from require_stream(node, topology)


def _check_merge(node: Merge, topology: Topology) -> Iterator[Problem]:
    for name in node.sources:
        if topology.kind(name) == TABLE:
            yield Problem(
                node.name,
                "merge",
                name,
                f"'{name}' is a table, and merge joins streams",
                "merge before groupBy",
            )
    first, *others = node.sources
    wanted = topology.columns(first)
    for other in others:
        columns = topology.columns(other)
        if not (wanted.known and columns.known):
            continue
        left, right = {c.lower() for c in wanted.value}, {c.lower() for c in columns.value}
        if left != right:
            yield Problem(
                node.name,
                "merge",
                None,
                f"'{first}' has the columns {listed(wanted.value)}, '{other}' has {listed(columns.value)}",
                "make them the same with a `select` node before",
            )
        if [c.lower() for c in wanted.key] != [c.lower() for c in columns.key]:
            yield Problem(
                node.name,
                "merge",
                None,
                f"'{first}' has the key {listed(wanted.key)}, '{other}' has {listed(columns.key)}",
                "give both the same key, with a `keyBy` node before",
            )


def _check_aggregate(node: Aggregate, topology: Topology) -> Iterator[Problem]:
    if topology.kind(node.input) == TABLE:
        yield Problem(
            node.name,
            "groupBy",
            None,
            f"its input '{node.input}' is a table; grouping a table again is not available yet",
            "group the stream that the table is made from",
        )
    columns = topology.columns(node.input)
    groups = tuple(name for name, _ in node.by)
    yield from check_names(node.name, "groupBy", node.by)
    yield from check_names(node.name, "aggregate", node.columns)
    for name, text in node.by:
        yield from check_expression(
            node.name, f"groupBy.{name}" if quote(name) != text else "groupBy", text, columns
        )
        yield from require_deterministic(
            node.name, f"groupBy.{name}", text, _RECOMPUTED, "compute it in a `with` node before"
        )
    taken = {name.lower(): "groupBy" for name in groups}
    if node.window is not None:
        taken |= {"window_start": "the window", "window_end": "the window"}
        for name in groups:
            if name.lower() in ("window_start", "window_end"):
                yield Problem(
                    node.name,
                    "groupBy",
                    name,
                    f"`{name}` is also a column of the window",
                    "give it another name",
                )
    for name, text in node.columns:
        if name.lower() in taken:
            yield Problem(
                node.name,
                f"aggregate.{name}",
                None,
                f"column `{name}` is already one of {taken[name.lower()]}",
                "give it another name",
            )
        yield from check_expression(
            node.name, f"aggregate.{name}", text, columns, aggregate=True, groups=groups
        )
        if read_expression(text).aggregate:
            yield from require_deterministic(
                node.name,
                f"aggregate.{name}",
                text,
                "state could not be rebuilt",
                "compute it in a `with` node before",
            )


def _check_join(node: Join, topology: Topology) -> Iterator[Problem]:
    for side in dict.fromkeys(node.inputs):
        if topology.kind(side) == TABLE:
            yield Problem(
                node.name,
                "join",
                side,
                f"'{side}' is a table; only joins of two streams are available in this version",
                "join the streams",
            )
    left, right = topology.columns(node.left), topology.columns(node.right)
    by = node.by or left.key
    for name in node.by:
        yield from check_column(
            node.name, "join.by", name, left, hint=f"`by` names columns of '{node.left}'"
        )
    if left.known and right.known and len(by) != len(right.key):
        yield Problem(
            node.name,
            "join.by",
            ", ".join(node.by) or None,
            f"{listed(by)} of '{node.left}' does not match the key of '{node.right}', {listed(right.key)}",
            f"name as many columns, or give '{node.right}' another key with a `keyBy` node",
        )
    if node.select is None:
        yield from _check_clashes(node, left, right, by)
        return
    yield from check_names(node.name, "join.select", node.select)
    sides = {
        alias: topology.columns(side)
        for alias, side in zip(node.aliases, node.inputs, strict=True)
        if is_given(topology.node(side))
    }
    for name, text in node.select:
        field = f"join.select.{name}"
        yield from check_joined_expression(node.name, field, text, sides, whole=len(sides) == 2)
        if name.lower() in {key.lower() for key in by}:
            allowed = {normalise(f"{quote(node.aliases[0])}.{quote(name)}")}
            allowed |= {
                normalise(f"{quote(node.aliases[1])}.{quote(theirs)}")
                for ours, theirs in zip(by, right.key, strict=False)
                if ours.lower() == name.lower()
            }
            if normalise(text) not in allowed:
                yield key_changed(node.name, field, name, text)


def _check_clashes(node: Join, left: Columns, right: Columns, by: tuple[str, ...]) -> Iterator[Problem]:
    if not (left.known and right.known):
        return
    # A pair of matched columns of one name is one column: both sides have the same in it.
    same = {a.lower() for a, b in zip(by, right.key, strict=False) if a.lower() == b.lower()}
    ours = {name.lower() for name in (*left.fields, *by)} - same
    clashing = [name for name in right.fields if name.lower() in ours]
    if clashing:
        name, (first, second) = quote(clashing[0]), map(quote, node.aliases)
        example = f"{{{name}: {first}.{name}, {clashing[0]}_right: {second}.{name}}}"
        yield Problem(
            node.name,
            "join.select",
            None,
            f"both sides have {listed(tuple(clashing))}",
            f"name them with select, e.g. select: {example}",
        )


CHECKERS: dict[type[Node], Callable[[Any, Topology], Iterator[Problem]]] = {
    Stream: _check_stream,
    Arm: _check_condition,
    Branch: _check_branch,
    Merge: _check_merge,
    Aggregate: _check_aggregate,
    Join: _check_join,
}
"""Of the operations that have not moved to `operations` yet."""
