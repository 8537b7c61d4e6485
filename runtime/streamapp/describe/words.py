# SPDX-License-Identifier: Apache-2.0
"""Nodes in words: what each does, on one line."""

from __future__ import annotations

from streamapp.durations import format_duration
from streamapp.errors import shorten
from streamapp.formats import Format
from streamapp.formats.ddl import fields_of
from streamapp.nodes import (
    Aggregate,
    Arm,
    Branch,
    DeadLetter,
    Filter,
    FlatMap,
    Join,
    KeyBy,
    Merge,
    Node,
    Python,
    RepartitionSink,
    RepartitionSource,
    Select,
    Sink,
    Stream,
    Topology,
    With,
)
from streamapp.plan import Plan

_OPERATIONS: dict[type[Node], str] = {
    Stream: "stream",
    Filter: "filter",
    Select: "select",
    With: "with",
    FlatMap: "flatMap",
    KeyBy: "keyBy",
    Merge: "merge",
    Branch: "branch",
    Arm: "when",
    Aggregate: "groupBy",
    Join: "join",
    Python: "python",
    Sink: "to",
    RepartitionSource: "hop in",
    RepartitionSink: "hop out",
    DeadLetter: "dead letters",
}


def operation(node: Node) -> str:
    """The operation, as the manifest calls it."""
    return _OPERATIONS[type(node)]


def details(node: Node, topology: Topology) -> str:
    """What the node does, in the manifest's terms."""
    if isinstance(node, Stream):
        return _stream(node)
    if isinstance(node, Filter):
        return node.condition
    if isinstance(node, Select | With):
        return _pairs(node.columns)
    if isinstance(node, FlatMap):
        return f"{node.column} = each of {node.array}"
    if isinstance(node, Python):
        return f"{', '.join(name for name, _ in fields_of(node.schema))} = {node.function}, by {node.mode}"
    if isinstance(node, KeyBy):
        return ", ".join(node.columns)
    if isinstance(node, Merge):
        return " + ".join(node.sources)
    if isinstance(node, Branch):
        return "first match of " + ", ".join(node.arms)
    if isinstance(node, Arm):
        return node.condition or ("the rest" if node.earlier else "everything")
    if isinstance(node, Aggregate):
        return _aggregate(node)
    if isinstance(node, Join):
        return _join(node, topology)
    if isinstance(node, Sink):
        return f"topic {node.topic}, key {_key(node, topology)}, value {_value(node, topology)}"
    if isinstance(node, RepartitionSource | RepartitionSink | DeadLetter):
        return f"topic {node.topic}"
    return ""


def of_stores(plan: Plan) -> dict[str, str]:
    """What each store's node does, by the store's name."""
    found = {}
    for store in plan.stores:
        topology = plan.subtopology(store.subtopology).topology
        node = topology.node(store.node)
        found[store.name] = f"{operation(node)} {details(node, topology)}"
    return found


def depths(plan: Plan) -> dict[str, int]:
    """For each sub-topology, how many internal topics lie between it and the app's own sources, at most.

    Each costs about one epoch of latency.
    """
    found: dict[str, int] = {}
    written: dict[str, int] = {}
    for part in plan.subtopologies:
        before = [written[n.topic] for n in part.nodes if isinstance(n, RepartitionSource)]
        found[part.name] = max(before, default=0)
        for node in part.nodes:
            if isinstance(node, RepartitionSink):
                written[node.topic] = found[part.name] + 1
    return found


def key_of(name: str, topology: Topology) -> str:
    """The key columns of a node's output, in words."""
    key = topology.key_columns(name)
    return "(" + ", ".join(key) + ")" if len(key) > 1 else ("key" if key == ("__key",) else "".join(key))


def _stream(node: Stream) -> str:
    if node.pattern is not None:
        where = f"topics matching /{node.pattern}/"
    else:
        where = ("topic " if len(node.topics) == 1 else "topics ") + ", ".join(node.topics)
    time = f", event time {node.timestamp}" if node.timestamp is not None else ""
    return f"{where}, key {_format(node.key)}, value {_format(node.value)}{time}"


def _aggregate(node: Aggregate) -> str:
    by = ", ".join(name if name == text.strip("`") else f"{name} = {text}" for name, text in node.by)
    text = f"by {by}: {_pairs(node.columns)}"
    if node.window is not None:
        text += f", {node.window.kind} window {format_duration(node.window.size_ms)}"
        if node.window.kind == "hopping":
            text += f" every {format_duration(node.window.advance_ms)}"
        text += f", grace {format_duration(node.grace_ms)}"
    return text + (", emit final" if node.emit == "final" else "")


def _join(node: Join, topology: Topology) -> str:
    left, right = node.aliases
    by = node.by or topology.key_columns(node.left)
    matched = ", ".join(
        f"{left}.{ours} = {right}.{theirs}"
        for ours, theirs in zip(by, topology.key_columns(node.right), strict=True)
    )
    text = f"{node.type}, {matched}, within {format_duration(node.within_ms)}"
    text += f", grace {format_duration(node.grace_ms)}"
    return text + (f": {_pairs(node.select)}" if node.select is not None else "")


def _key(node: Sink, topology: Topology) -> str:
    columns = topology.key_columns(node.input)
    name = node.key.name if node.key else ("json" if len(columns) > 1 else "text")
    return f"{key_of(node.input, topology)} as {name}"


def _value(node: Sink, topology: Topology) -> str:
    columns = topology.columns(node.input).value
    form = node.value or Format("json")
    shown = columns[0] if form.single_value and len(columns) == 1 else "{" + ", ".join(columns) + "}"
    return f"{shown} as {form.name}"


def _format(form: Format) -> str:
    return form.name if form.schema is None else f"{form.name}({' '.join(form.schema.split())})"


def _pairs(columns: tuple[tuple[str, str], ...]) -> str:
    return shorten(", ".join(f"{name} = {text}" for name, text in columns))
