# SPDX-License-Identifier: Apache-2.0
"""The cut topology as sub-topologies."""

from __future__ import annotations

from streamapp.nodes import Aggregate, DeadLetter, Node, RepartitionSink, RepartitionSource, Topology
from streamapp.plan import SubTopology


def split(topology: Topology) -> tuple[SubTopology, ...]:
    """One sub-topology for each stateful node, for each group of connected sources that lead to a sink
    without one, and for each source's dead letters. Each comes after those whose internal topics it reads."""
    parts = [_stateful(topology, node) for node in topology.nodes if node.stateful]
    parts += _stateless(topology)
    parts += [
        SubTopology(node.name, (topology.node(node.input), node), None, "append", ())
        for node in topology.nodes
        if isinstance(node, DeadLetter)
    ]
    return _ordered(parts, topology)


def _stateful(topology: Topology, node: Node) -> SubTopology:
    names = {n.name for n in (*topology.ancestors(node.name), node, *topology.descendants(node.name))}
    # A table's rows are rewritten until its windows close; everything else is only ever added.
    mode = "update" if isinstance(node, Aggregate) and node.emit == "updates" else "append"
    store = getattr(node, "store")  # noqa: B009  (both stateful classes have it)
    return SubTopology(
        node.name, tuple(n for n in topology.nodes if n.name in names), node.name, mode, (store,)
    )


def _stateless(topology: Topology) -> list[SubTopology]:
    """Sinks that share a source share a query, so that a row is computed once however many sinks it
    reaches."""
    groups: list[tuple[set[str], set[str]]] = []  # (sources, nodes)
    for sink in topology.nodes:
        if not sink.sink or isinstance(sink, DeadLetter):
            continue
        before = topology.ancestors(sink.name)
        if any(node.stateful for node in before):
            continue
        sources = {node.name for node in before if node.source}
        nodes = {sink.name, *(node.name for node in before)}
        apart = []
        for group in groups:
            if group[0] & sources:
                sources |= group[0]
                nodes |= group[1]
            else:
                apart.append(group)
        groups = [*apart, (sources, nodes)]
    return [
        SubTopology(min(sources), tuple(n for n in topology.nodes if n.name in nodes), None, "append", ())
        for sources, nodes in groups
    ]


def _ordered(parts: list[SubTopology], topology: Topology) -> tuple[SubTopology, ...]:
    """By what they read of each other; else by where their last node stands in the topology."""
    place = {node.name: i for i, node in enumerate(topology.nodes)}
    writer = {
        node.topic: part.name for part in parts for node in part.nodes if isinstance(node, RepartitionSink)
    }
    waiting = sorted(parts, key=lambda part: place[part.nodes[-1].name])
    done: list[SubTopology] = []
    while waiting:
        names = {part.name for part in done}
        ready = next(
            part
            for part in waiting
            if all(writer[n.topic] in names for n in part.nodes if isinstance(n, RepartitionSource))
        )
        done.append(ready)
        waiting.remove(ready)
    return tuple(done)
