# SPDX-License-Identifier: Apache-2.0
"""The check of expressions that use the current time: where a table's old row is computed again, it must come out as it
did then."""

from __future__ import annotations

from collections.abc import Iterator

from streamapp.errors import Problem
from streamapp.expressions import read_expression
from streamapp.nodes import TABLE, Node, Topology

_WHY = "a row's old value is computed again when the row changes, and must be the same again"
_FIX = (
    "compute it in a `with` node of the stream that the table is made of; a row that is to go after some time has `ttl`"
)


def check_clock(topology: Topology) -> Iterator[Problem]:
    """Problems of expressions over tables' rows that use the clock, where a stateful node takes these rows' changes."""
    kept: set[str] = set()
    for node in reversed(topology.nodes):
        if _is_kept(node, topology, kept):
            kept.add(node.name)
    for node in topology.nodes:
        if node.name in kept and TABLE in map(topology.kind, node.inputs):
            yield from _by_clock(node)


def _by_clock(node: Node) -> Iterator[Problem]:
    for expression in node.expressions():
        read = read_expression(expression.text)
        if not read.faults and read.clock is not None:
            message = f"`{read.clock}` is the time of the epoch: {_WHY}"
            yield Problem(node.name, expression.field, expression.text, message, _FIX)


def _is_kept(node: Node, topology: Topology, behind: set[str]) -> bool:
    """Whether a stateful node takes changes of what the node gives: itself, or one behind it.

    Args:
        behind: the nodes behind it for which this is true.
    """
    if node.takes_changes([topology.kind(name) for name in node.inputs]):
        return True
    readers = topology.consumers(node.name) if topology.kind(node.name) == TABLE else ()
    return any(reader.name in behind or (reader.keyed and topology.kind(reader.name) == TABLE) for reader in readers)
