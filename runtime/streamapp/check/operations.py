# SPDX-License-Identifier: Apache-2.0
"""Each node in its place: the kind and the columns of what it reads, and its expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from streamapp.check.scope import check_expression, check_joined_expression, require_deterministic
from streamapp.errors import Problem, near_miss
from streamapp.expressions import normalise, quote, read_expression
from streamapp.formats import Format
from streamapp.formats.ddl import fields_of
from streamapp.nodes import (
    TABLE,
    Aggregate,
    Arm,
    Branch,
    Broken,
    Columns,
    DeadLetter,
    FlatMap,
    Join,
    KeyBy,
    Merge,
    Node,
    Python,
    RepartitionSink,
    RepartitionSource,
    Role,
    Select,
    Sink,
    Stream,
    Topology,
    With,
    is_given,
)
from streamapp.operations import Filter

TRUE_AND_FALSE = ("true", "false")
"""No column is named so: these are what is left in a cluster of keys such as `y` and `no` without quotes."""
READ_AS_BOOLEAN = "without quotes, y, n, yes, no, on and off are read as true and false"
QUOTE_IT = "write the name in quotes, or use another"
_RECOMPUTED = "an epoch that is run again would put the record elsewhere"


def check_nodes(topology: Topology) -> Iterator[Problem]:
    """Problems of every node, in the topology's order."""
    for node in topology.nodes:
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


def _check_condition(node: Filter | Arm, topology: Topology) -> Iterator[Problem]:
    for used in node.expressions():
        if used.role is Role.CONDITION:
            yield from check_expression(node.name, used.field, used.text, topology.columns(node.input))


def _check_branch(node: Branch, topology: Topology) -> Iterator[Problem]:
    yield from _require_stream(node, topology, "branch")


def _check_mapping(node: Select | With, topology: Topology) -> Iterator[Problem]:
    columns = topology.columns(node.input)
    yield from _check_names(node.name, node.operation, node.columns)
    for name, text in node.columns:
        yield from check_expression(node.name, f"{node.operation}.{name}", text, columns)
        yield from _check_key_kept(node.name, f"{node.operation}.{name}", name, text, columns)


def _check_flat_map(node: FlatMap, topology: Topology) -> Iterator[Problem]:
    yield from _require_stream(node, topology, "flatMap")
    columns = topology.columns(node.input)
    yield from _check_names(node.name, "flatMap", ((node.column, node.array),))
    yield from check_expression(node.name, f"flatMap.{node.column}", node.array, columns)
    yield from _check_key_kept(node.name, f"flatMap.{node.column}", node.column, node.array, columns)


def _check_python(node: Python, topology: Topology) -> Iterator[Problem]:
    keys = _fixed_keys(topology.columns(node.input))
    for name, _ in fields_of(node.schema):
        if name.lower() in keys:
            yield Problem(
                node.name,
                "python.schema",
                node.schema,
                f"column `{name}` is part of the key, which stays as it is here",
                "leave it out, or use another name and keyBy after it",
            )


def _check_key_by(node: KeyBy, topology: Topology) -> Iterator[Problem]:
    yield from _require_stream(node, topology, "keyBy")
    columns = topology.columns(node.input)
    for name in node.columns:
        yield from _check_column(node.name, "keyBy", name, columns, hint="compute it in a `with` node before")


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
                f"'{first}' has the columns {_listed(wanted.value)}, '{other}' has {_listed(columns.value)}",
                "make them the same with a `select` node before",
            )
        if [c.lower() for c in wanted.key] != [c.lower() for c in columns.key]:
            yield Problem(
                node.name,
                "merge",
                None,
                f"'{first}' has the key {_listed(wanted.key)}, '{other}' has {_listed(columns.key)}",
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
    yield from _check_names(node.name, "groupBy", node.by)
    yield from _check_names(node.name, "aggregate", node.columns)
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
        yield from _check_column(
            node.name, "join.by", name, left, hint=f"`by` names columns of '{node.left}'"
        )
    if left.known and right.known and len(by) != len(right.key):
        yield Problem(
            node.name,
            "join.by",
            ", ".join(node.by) or None,
            f"{_listed(by)} of '{node.left}' does not match the key of '{node.right}', {_listed(right.key)}",
            f"name as many columns, or give '{node.right}' another key with a `keyBy` node",
        )
    if node.select is None:
        yield from _check_clashes(node, left, right, by)
        return
    yield from _check_names(node.name, "join.select", node.select)
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
                yield _key_changed(node.name, field, name, text)


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
            f"both sides have {_listed(tuple(clashing))}",
            f"name them with select, e.g. select: {example}",
        )


def _check_sink(node: Sink, topology: Topology) -> Iterator[Problem]:
    columns = topology.columns(node.input)
    if not columns.known:
        return
    if node.key is not None:
        yield from _check_format(node.name, "to.key", node.key, columns.key, "key")
    if node.value is not None:
        yield from _check_format(node.name, "to.value", node.value, columns.value, "value")
    elif not columns.value:
        yield Problem(
            node.name,
            "to",
            None,
            "there is no column besides the key to write as a value",
            "add one with a `with` node before",
        )


def _check_format(
    node: str, field: str, form: Format, columns: tuple[str, ...], what: str
) -> Iterator[Problem]:
    if form.single_value and len(columns) != 1:
        has = f"{len(columns)} columns: {', '.join(columns)}" if columns else "none"
        fix = "use json, or a `select` node before" if what == "value" else "use json, or leave `key` out"
        yield Problem(
            node,
            field,
            form.name,
            f"format {form.name} holds exactly one column, and the {what} has {has}",
            fix,
        )


def _check_names(node: str, field: str, pairs: tuple[tuple[str, str], ...]) -> Iterator[Problem]:
    seen: set[str] = set()
    for name, _ in pairs:
        if not name.strip():
            yield Problem(node, field, name, "a column's name is empty", "name it")
        elif name.startswith("__"):
            yield Problem(
                node,
                field,
                name,
                f"column `{name}`: names that start with two underscores are the engine's own",
                "rename it",
            )
        elif name in TRUE_AND_FALSE:
            yield Problem(node, field, name, f"column `{name}`: {READ_AS_BOOLEAN}", QUOTE_IT)
        if name.lower() in seen:
            yield Problem(
                node,
                field,
                name,
                f"column `{name}` is there twice (the engine does not tell upper from lower case)",
                "rename one",
            )
        seen.add(name.lower())


def _check_column(node: str, field: str, name: str, columns: Columns, hint: str) -> Iterator[Problem]:
    if columns.known and columns.find(name) is None:
        parsed = read_expression(name)
        if parsed.faults or parsed.columns != ((name,),):
            yield Problem(node, field, name, f"`{name}` is not a column's name", hint)
        else:
            shown = [known for known in columns.names if not known.startswith("__")]
            fix = near_miss(name, shown) or f"there are: {', '.join(shown)}"
            yield Problem(node, field, name, f"unknown column `{name}`", fix)


def _check_key_kept(node: str, field: str, name: str, text: str, columns: Columns) -> Iterator[Problem]:
    """A map keeps the key."""
    if name.lower() in _fixed_keys(columns) and normalise(text) != normalise(quote(name)):
        yield _key_changed(node, field, name, text)


def _fixed_keys(columns: Columns) -> set[str]:
    """Key columns, in lower case, that no value column may be named after. The record's own key may be shadowed."""
    return {key.lower() for key in columns.key if columns.key != ("key",)}


def _key_changed(node: str, field: str, name: str, text: str) -> Problem:
    return Problem(
        node,
        field,
        text,
        f"column `{name}` is part of the key, which stays as it is here",
        "use another name, and keyBy after it",
    )


def _require_stream(node: Node, topology: Topology, operation: str) -> Iterator[Problem]:
    source = node.inputs[0]
    if topology.kind(source) == TABLE:
        yield Problem(
            node.name,
            operation,
            None,
            f"its input '{source}' is a table, and {operation} of a table is not available yet",
            f"use {operation} before groupBy",
        )


def _listed(names: tuple[str, ...]) -> str:
    shown = ["the record's own key" if name in ("key", "__key") else f"`{name}`" for name in names]
    return ", ".join(shown) if shown else "none"


CHECKERS: dict[type[Node], Callable[[Any, Topology], Iterator[Problem]]] = {
    Stream: _check_stream,
    Filter: _check_condition,
    Arm: _check_condition,
    Branch: _check_branch,
    Select: _check_mapping,
    With: _check_mapping,
    FlatMap: _check_flat_map,
    Python: _check_python,
    KeyBy: _check_key_by,
    Merge: _check_merge,
    Aggregate: _check_aggregate,
    Join: _check_join,
    Sink: _check_sink,
}
"""For each class of a node, what can be wrong with it."""
UNCHECKED: tuple[type[Node], ...] = (Broken, RepartitionSource, RepartitionSink, DeadLetter)
"""On purpose: a stand-in has been told already, and the others are made by the passes."""
