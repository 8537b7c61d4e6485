# SPDX-License-Identifier: Apache-2.0
"""A store's fingerprint: equal for two versions of an app exactly when the one can go on with the other's
state.

It covers what the state's keys and values ARE:
- the operation, and for an aggregate the window, for a join the type and `within` (how long rows are kept);
- the key: each expression, followed back through the nodes before to the fields of topics and their types,
  because the same rows must find the same key again;
- an aggregate's expressions, and for the columns they use the declared type where a column comes unchanged
  from a topic;
- a join's columns on both sides, and what its `select` uses of the records' own, which the rows it keeps are
  made of.

It leaves out what only decides which records come or where results go: filters, the computing of aggregated
values, what stands in a `python` function of that name, topics, node and store names, grace, `emit`,
everything downstream, comments, spelling, and the order of maps. A changed filter or a corrected `with`
expression thus goes on with the old sums, which is what a correction under way means.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from streamapp.expressions import normalise, quote, read_expression
from streamapp.formats.ddl import fields_of
from streamapp.nodes import (
    RECORD_COLUMNS,
    Aggregate,
    Columns,
    FlatMap,
    Join,
    Merge,
    Node,
    Python,
    Select,
    Stream,
    Topology,
    With,
)

_SCHEME = 1
"""Part of every fingerprint: raise it when the runtime lays state out in another way."""
_RECORD_TYPES = {
    "timestamp": "timestamp",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "headers": "array<struct>",
}
_FORMAT_TYPES = {
    "text": "string",
    "bytes": "binary",
    "integer": "int",
    "long": "bigint",
    "double": "double",
    "bigendian-integer": "int",
    "bigendian-long": "bigint",
    "bigendian-double": "double",
}


Origin = str | tuple[str, str | None, str]
"""Where a column comes from: ("field", type, name) of a topic, ("function", type, name) of the user's, or the digest of
how it is computed."""


def fingerprint(topology: Topology, node: Node) -> str:
    """16 hexadecimal digits for the state of a stateful node of the topology as the user wrote it, uncut."""
    assert isinstance(node, Aggregate | Join)
    origins: dict[str, Mapping[str, Origin]] = {}
    for before in topology.ancestors(node.name):
        origins[before.name] = _origins(topology, before, origins)
    shape = _aggregate(node, origins) if isinstance(node, Aggregate) else _join(topology, node, origins)
    return _digest([_SCHEME, shape])


def _aggregate(node: Aggregate, origins: Mapping[str, Mapping[str, Origin]]) -> Any:
    columns = origins[node.input]
    return {
        "operation": "aggregate",
        "window": [node.window.size_ms, node.window.advance_ms] if node.window else None,
        "key": [[name.lower(), _expression(text, columns)] for name, text in node.by],
        "values": {
            name.lower(): [normalise(text), {used: _declared(columns.get(used)) for used in _used(text)}]
            for name, text in node.columns
        },
    }


def _join(topology: Topology, node: Join, origins: Mapping[str, Mapping[str, Origin]]) -> Any:
    left, right = topology.columns(node.left), topology.columns(node.right)
    by = zip(node.by or left.key, right.key, strict=True)
    return {
        "operation": "join",
        "type": node.type,
        "within": node.within_ms,
        "key": [
            [origins[node.left][ours.lower()], origins[node.right][theirs.lower()]] for ours, theirs in by
        ],
        "left": {name.lower(): _declared(origins[node.left][name.lower()]) for name in left.value},
        "right": {name.lower(): _declared(origins[node.right][name.lower()]) for name in right.value},
        **({"fields": fields} if any(fields := _record_fields(node, left, right)) else {}),
    }


def _record_fields(node: Join, left: Columns, right: Columns) -> list[list[str]]:
    """What `select` uses of the records' own columns, for each side: a join keeps those, and no others."""
    used = {".".join(parts[:2]).lower() for _, text in node.select or () for parts in read_expression(text).columns}
    return [
        [n for n in RECORD_COLUMNS if f"{alias}.{n}".lower() in used and columns.find(n) not in columns.value]
        for alias, columns in zip(node.aliases, (left, right), strict=True)
    ]


def _origins(
    topology: Topology, node: Node, before: Mapping[str, Mapping[str, Origin]]
) -> Mapping[str, Origin]:
    """The origin of every column of a node's output.

    Computed ones are digests, so that chains of nodes, and columns used twice, cannot make it grow.
    """
    if isinstance(node, Stream):
        return _fields(node)
    if isinstance(node, Merge):
        return _merged([before[name] for name in node.sources])
    if isinstance(node, Join):
        return _joined(topology, node, before)
    source = before[node.inputs[0]]
    if isinstance(node, With):
        return {**source, **{name.lower(): _computed(text, source) for name, text in node.columns}}
    if isinstance(node, Select):
        columns = topology.columns(node.input)
        kept = {name.lower(): source[name.lower()] for name in (*columns.key, *columns.meta)}
        return {**kept, **{name.lower(): _computed(text, source) for name, text in node.columns}}
    if isinstance(node, Python):
        columns = topology.columns(node.input)
        kept = {name.lower(): source[name.lower()] for name in (*columns.key, *columns.meta)}
        returned = fields_of(node.schema)
        return {**kept, **{n.lower(): ("function", kind, f"{node.function}.{n.lower()}") for n, kind in returned}}
    if isinstance(node, FlatMap):
        return {**source, node.column.lower(): _digest(["element", _expression(node.array, source)])}
    if isinstance(node, Aggregate):
        found = {
            name.lower(): _digest(["aggregate", _expression(text, source)]) for name, text in node.columns
        }
        keys = {name.lower(): _computed(text, source) for name, text in node.by}
        return {"timestamp": "latest", "window_start": "window", "window_end": "window", **found, **keys}
    return source


def _computed(text: str, columns: Mapping[str, Origin]) -> Origin:
    """A column that is only renamed keeps its origin."""
    used = read_expression(text).columns
    if len(used) == 1 and len(used[0]) == 1 and normalise(text) == normalise(quote(used[0][0])):
        return columns.get(used[0][0].lower(), "unknown")
    return _digest(["expression", _expression(text, columns)])


def _merged(inputs: list[Mapping[str, Origin]]) -> Mapping[str, Origin]:
    first, *others = inputs
    found: dict[str, Origin] = {}
    for name, origin in first.items():
        different = sorted({json.dumps(columns[name]) for columns in inputs if name in columns})
        if all(name in columns for columns in others):
            found[name] = origin if len(different) == 1 else _digest(["any", different])
    return found


def _joined(
    topology: Topology, node: Join, before: Mapping[str, Mapping[str, Origin]]
) -> Mapping[str, Origin]:
    left, right = before[node.left], before[node.right]
    keys = {name.lower(): left[name.lower()] for name in node.by or topology.key_columns(node.left)}
    if node.select is None:
        return {**right, **left, "timestamp": "latest", **keys}
    sides = {
        f"{alias}.{name}".lower(): origin
        for alias, columns in zip(node.aliases, (left, right), strict=True)
        for name, origin in columns.items()
    }
    found = {}
    for name, text in node.select:
        used = {".".join(parts[:2]).lower() for parts in read_expression(text).columns}
        found[name.lower()] = _digest(
            ["joined", normalise(text), {u: sides.get(u, "unknown") for u in sorted(used)}]
        )
    return {"timestamp": "latest", **found, **keys}


def _fields(node: Stream) -> Mapping[str, Origin]:
    key = ("field", _FORMAT_TYPES.get(node.key.name, node.key.schema), "key")
    found: dict[str, Origin] = {name: ("field", kind, name) for name, kind in _RECORD_TYPES.items()}
    found |= {"key": key, "__key": key}
    if node.value.single_value:
        return {**found, "value": ("field", _FORMAT_TYPES[node.value.name], "value")}
    fields = fields_of(node.value.schema or "")
    return {**found, **{name.lower(): ("field", kind, name.lower()) for name, kind in fields}}


def _expression(text: str, columns: Mapping[str, Origin]) -> Any:
    """An expression, and the origin of each column it uses."""
    return [normalise(text), {name: columns.get(name, "unknown") for name in _used(text)}]


def _used(text: str) -> tuple[str, ...]:
    return tuple(sorted({parts[0].lower() for parts in read_expression(text).columns}))


def _declared(origin: Origin | None) -> str | None:
    """The type of a column that comes unchanged from a topic or a function; None for a computed one."""
    return origin[1] if isinstance(origin, tuple) else None


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
