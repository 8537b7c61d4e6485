# SPDX-License-Identifier: Apache-2.0
"""The pass that moves groups into tasks.

A `groupBy` of a stream runs in the task of its key
- where its result depends on the order of its records,
- where records say where its windows are,
- where its groups expire,
- where its table, as it is or behind filters, is looked up or joined by that key: the table gets there without an
  internal topic and in the same epoch,
- where its table is grouped once more: that takes the old row of each change, and a task knows it.

A `groupBy` of a table runs there where it keeps the table's rows. Elsewhere records are combined before the shuffle,
which is cheaper.
"""

from __future__ import annotations

from dataclasses import replace

from streamapp.compile.context import Context
from streamapp.nodes import STREAM, TABLE, Node, Topology
from streamapp.operations import Aggregate


def fold_what_is_needed_in_tasks(topology: Topology, context: Context) -> Topology:
    """The topology with such groups in tasks."""

    def moved(node: Node) -> Node:
        if not isinstance(node, Aggregate):
            return node
        if topology.kind(node.input) != STREAM:
            return replace(node, folds=node.keeps_rows)
        if node.window is not None:
            return replace(node, folds=node.needs_order or node.window.of_records)
        return replace(node, folds=node.needs_order or node.ttl_ms > 0 or _is_needed(topology, node))

    return Topology(tuple(map(moved, topology.nodes)))


def _is_needed(topology: Topology, node: Node) -> bool:
    return any(
        bool(reader.tables_needed)
        or reader.takes_changes([topology.kind(name) for name in reader.inputs])
        or (reader.row_wise and topology.kind(reader.name) == TABLE and _is_needed(topology, reader))
        for reader in topology.consumers(node.name)
    )
