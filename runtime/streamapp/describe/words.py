# SPDX-License-Identifier: Apache-2.0
"""Nodes in words: what each does, on one line."""

from __future__ import annotations

from streamapp.nodes import Node, RepartitionSink, RepartitionSource, Topology
from streamapp.plan import Plan


def details(node: Node, topology: Topology) -> str:
    """A description of the node, in the manifest's terms."""
    return node.description([topology.columns(name) for name in node.inputs])


def of_stores(plan: Plan) -> dict[str, str]:
    """A description of each store's node, by the store's name."""
    found = {}
    for store in plan.stores:
        topology = plan.subtopology(store.subtopology).topology
        node = topology.node(store.node)
        found[store.name] = f"{node.operation} {details(node, topology)}"
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
    return topology.columns(name).key_in_words
