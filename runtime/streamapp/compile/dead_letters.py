# SPDX-License-Identifier: Apache-2.0
"""The pass that gives unreadable records a way out."""

from __future__ import annotations

from streamapp.compile.context import Context, free
from streamapp.nodes import DeadLetter, Node, Topology


def add_dead_letters(topology: Topology, context: Context) -> Topology:
    """A DeadLetter node behind each source that can meet a record it cannot read, where the app asks for it.

    It becomes a sub-topology of its own, because its records leave above the shuffle of the source's other
    readers.
    """
    topic = context.on_bad_record.topic
    if topic is None:
        return topology
    nodes: list[Node] = []
    for node in topology.nodes:
        nodes.append(node)
        if node.makes_bad_records:
            name = free(dead_letter_name(node), f"bad records of '{node.name}'", topology)
            nodes.append(DeadLetter(name, node.name, topic))
    return Topology(tuple(nodes))


def dead_letter_name(source: Node) -> str:
    """The name of a source's DeadLetter node."""
    return f"{source.name}-dead-letter"
