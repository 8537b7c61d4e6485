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

from collections.abc import Mapping
from typing import Any

from streamapp.expressions import normalise, read_expression
from streamapp.formats.ddl import fields_of
from streamapp.nodes import RECORD_COLUMNS, Aggregate, Columns, Join, Merge, Node, Origin, Origins, Stream, Topology
from streamapp.origins import all_computed, all_declared, declared, digest, expression, in_all, used_by

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


def fingerprint(topology: Topology, node: Node) -> str:
    """16 hexadecimal digits for the state of a stateful node of the topology as the user wrote it, uncut."""
    assert isinstance(node, Aggregate | Join)
    origins: dict[str, Origins] = {}
    for before in topology.ancestors(node.name):
        origins[before.name] = _origins(topology, before, origins)
    shape = _aggregate(node, origins) if isinstance(node, Aggregate) else _join(topology, node, origins)
    return digest([_SCHEME, shape])


def _aggregate(node: Aggregate, origins: Mapping[str, Origins]) -> Any:
    columns = origins[node.input]
    return {
        "operation": "aggregate",
        "window": [node.window.size_ms, node.window.advance_ms] if node.window else None,
        "key": [[name.lower(), expression(text, columns)] for name, text in node.by],
        "values": {
            name.lower(): [normalise(text), {used: declared(columns.get(used)) for used in used_by(text)}]
            for name, text in node.columns
        },
    }


def _join(topology: Topology, node: Join, origins: Mapping[str, Origins]) -> Any:
    left, right = topology.columns(node.left), topology.columns(node.right)
    by = zip(node.by or left.key, right.key, strict=True)
    return {
        "operation": "join",
        "type": node.type,
        "within": node.within_ms,
        "key": [
            [origins[node.left][ours.lower()], origins[node.right][theirs.lower()]] for ours, theirs in by
        ],
        "left": all_declared(left.value, origins[node.left]),
        "right": all_declared(right.value, origins[node.right]),
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
    topology: Topology, node: Node, before: Mapping[str, Origins]
) -> Origins:
    """The origin of every column of a node's output."""
    if isinstance(node, Stream):
        return _fields(node)
    if isinstance(node, Merge):
        return in_all([before[name] for name in node.sources])
    if isinstance(node, Join):
        return _joined(topology, node, before)
    source = before[node.inputs[0]]
    if isinstance(node, Aggregate):
        found = {
            name.lower(): digest(["aggregate", expression(text, source)]) for name, text in node.columns
        }
        keys = all_computed(node.by, source)
        return {"timestamp": "latest", "window_start": "window", "window_end": "window", **found, **keys}
    return node.origins([topology.columns(name) for name in node.inputs], [before[name] for name in node.inputs])


def _joined(
    topology: Topology, node: Join, before: Mapping[str, Origins]
) -> Origins:
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
        found[name.lower()] = digest(
            ["joined", normalise(text), {u: sides.get(u, "unknown") for u in sorted(used)}]
        )
    return {"timestamp": "latest", **found, **keys}


def _fields(node: Stream) -> Origins:
    key = ("field", _FORMAT_TYPES.get(node.key.name, node.key.schema), "key")
    found: dict[str, Origin] = {name: ("field", kind, name) for name, kind in _RECORD_TYPES.items()}
    found |= {"key": key, "__key": key}
    if node.value.single_value:
        return {**found, "value": ("field", _FORMAT_TYPES[node.value.name], "value")}
    fields = fields_of(node.value.schema or "")
    return {**found, **{name.lower(): ("field", kind, name.lower()) for name, kind in fields}}
