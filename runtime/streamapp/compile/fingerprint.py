# SPDX-License-Identifier: Apache-2.0
"""A store's fingerprint: equal for two versions of an app exactly when the one can go on with the other's
state.

It covers what the state's keys and values ARE:
- the operation, and for an aggregate the window, for a join the type and `within` (how long rows are kept);
- the key: each expression, followed back through the nodes before to the fields of topics and their types,
  because the same rows must find the same key again;
- an aggregate's expressions, and for the columns they use the declared type where a column comes unchanged
  from a topic;
- a join's columns on both sides, which the rows it keeps are made of.

It leaves out what only decides which records come or where results go: filters, the computing of aggregated
values, topics, node and store names, grace, `emit`, everything downstream, comments, spelling, and the order
of maps. A changed filter or a corrected `with` expression thus goes on with the old sums, which is what a
correction under way means.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from streamapp.expressions import normalise, quote, read_expression
from streamapp.formats.ddl import fields_of
from streamapp.nodes import (
    Aggregate,
    Arm,
    Branch,
    Filter,
    FlatMap,
    Join,
    KeyBy,
    Merge,
    Node,
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


def fingerprint(topology: Topology, node: Node) -> str:
    """16 hexadecimal digits for the state of a stateful node of the topology as the user wrote it (not yet
    cut)."""
    return hashlib.sha256(json.dumps([_SCHEME, _shape(topology, node)], sort_keys=True).encode()).hexdigest()[
        :16
    ]


def _shape(topology: Topology, node: Node) -> Any:
    if isinstance(node, Aggregate):
        origins = _Origins(topology)
        window = [node.window.size_ms, node.window.advance_ms] if node.window else None
        return {
            "operation": "aggregate",
            "window": window,
            "key": [[name.lower(), origins.expression(node.input, text)] for name, text in node.by],
            "values": {name.lower(): origins.typed(node.input, text) for name, text in node.columns},
        }
    assert isinstance(node, Join)
    origins = _Origins(topology)
    left, right = topology.columns(node.left), topology.columns(node.right)
    return {
        "operation": "join",
        "type": node.type,
        "within": node.within_ms,
        "key": [
            [origins.column(node.left, ours), origins.column(node.right, theirs)]
            for ours, theirs in zip(node.by or left.key, right.key, strict=True)
        ],
        "left": {name.lower(): origins.type(node.left, name) for name in left.value},
        "right": {name.lower(): origins.type(node.right, name) for name in right.value},
    }


class _Origins:
    """Follows columns back to where they come from."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._known: dict[tuple[str, str], Any] = {}

    def expression(self, node: str, text: str) -> Any:
        """An expression over a node's output: itself, and the origin of each of its columns."""
        names = sorted({parts[0].lower() for parts in read_expression(text).columns})
        return [normalise(text), {name: self.column(node, name) for name in names}]

    def typed(self, node: str, text: str) -> Any:
        """An expression over a node's output: itself, and the declared type of each of its columns."""
        names = sorted({parts[0].lower() for parts in read_expression(text).columns})
        return [normalise(text), {name: self.type(node, name) for name in names}]

    def type(self, node: str, name: str) -> str | None:
        """The declared type of a column that comes unchanged from a topic; None for a computed one."""
        origin = self.column(node, name)
        return origin[1] if isinstance(origin, list) and origin[0] == "field" else None

    def column(self, node: str, name: str) -> Any:
        """The origin of a column of a node's output: a topic's field with its type, or an expression."""
        place = (node, name.lower())
        if place not in self._known:
            # Set before it is followed: a very long chain ends in Python's own limit otherwise.
            self._known[place] = self._follow(self._topology.node(node), name.lower())
        return self._known[place]

    def _follow(self, node: Node, name: str) -> Any:
        # Straight stretches are walked and not recursed into: chains of nodes may be long.
        while isinstance(node, Filter | Arm | Branch | KeyBy):
            node = self._topology.node(node.inputs[0])
        if isinstance(node, Stream):
            return _field(node, name)
        if isinstance(node, Select | With):
            text = next((text for column, text in node.columns if column.lower() == name), None)
            return self._computed(node.input, name, text)
        if isinstance(node, FlatMap):
            if node.column.lower() == name:
                return ["element", self.expression(node.input, node.array)]
            return self.column(node.input, name)
        if isinstance(node, Merge):
            origins = [self.column(source, name) for source in node.sources]
            different = {json.dumps(origin, sort_keys=True): origin for origin in origins}
            return origins[0] if len(different) == 1 else ["any", sorted(different)]
        if isinstance(node, Join):
            return self._joined(node, name)
        if isinstance(node, Aggregate):
            text = next((text for column, text in (*node.by, *node.columns) if column.lower() == name), name)
            return ["aggregate", self.expression(node.input, text)]
        return ["unknown", name]

    def _computed(self, node: str, name: str, text: str | None) -> Any:
        if text is None or normalise(text) == normalise(quote(name)):
            return self.column(node, name)
        columns = read_expression(text).columns
        if len(columns) == 1 and len(columns[0]) == 1 and normalise(text) == normalise(quote(columns[0][0])):
            return self.column(node, columns[0][0])  # only renamed
        return ["expression", self.expression(node, text)]

    def _joined(self, node: Join, name: str) -> Any:
        left, right = self._topology.columns(node.left), self._topology.columns(node.right)
        by = node.by or left.key
        if name in (key.lower() for key in by):
            return self.column(node.left, name)
        if node.select is not None:
            text = next((text for column, text in node.select if column.lower() == name), None)
            return ["joined", normalise(text) if text is not None else name]
        side = node.left if left.find(name) else node.right
        if name == "timestamp" and not any(n.lower() == name for n in (*left.value, *right.value)):
            return ["field", "timestamp"]
        return self.column(side, name) if (left.find(name) or right.find(name)) else ["unknown", name]


def _field(node: Stream, name: str) -> Any:
    if node.value.single_value:
        if name == "value":
            return ["field", _FORMAT_TYPES[node.value.name]]
    else:
        for field, kind in fields_of(node.value.schema or ""):
            if field.lower() == name:
                return ["field", kind, name]
    if name in ("key", "__key"):
        return ["field", _FORMAT_TYPES.get(node.key.name, node.key.schema), "key"]
    return ["field", _RECORD_TYPES.get(name), name]
