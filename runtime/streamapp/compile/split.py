# SPDX-License-Identifier: Apache-2.0
"""The cut topology as sub-topologies."""

from __future__ import annotations

from dataclasses import dataclass

from streamapp.errors import ManifestError, Problem
from streamapp.nodes import DeadLetter, Node, RepartitionSink, RepartitionSource, Topology
from streamapp.plan import SubTopology


def split(topology: Topology) -> tuple[SubTopology, ...]:
    """One sub-topology for each stateful node, for each group of connected sources that lead to a sink
    without one, and for each source's dead letters. Each comes after those whose internal topics it reads.

    Raises:
        ManifestError: when two would have the same name.
    """
    depths = _depths(topology)
    parts = [_around(topology, node, node.subtopology) for node in topology.nodes if node.subtopology is not None]
    parts += _stateless(topology, depths)
    parts += [
        SubTopology(node.name, (topology.node(node.input), node), None, "append", ())
        for node in topology.nodes
        if isinstance(node, DeadLetter)
    ]
    place = {node.name: i for i, node in enumerate(topology.nodes)}
    _require_names(parts)
    return tuple(sorted(parts, key=lambda part: (max(depths[n.name] for n in part.nodes), place[part.nodes[-1].name])))


def _require_names(parts: list[SubTopology]) -> None:
    """A sub-topology's offsets, transactions and metrics stand under its name."""
    stateless = {part.name for part in parts if part.stateful is None}
    problems = [
        Problem(
            part.stateful,
            "store",
            part.name,
            f"store '{part.name}' is also the name of a node whose records leave without passing a store: two "
            "sub-topologies would have that name",
            "give the store another name",
        )
        for part in parts
        if part.stateful is not None and part.name in stateless
    ]
    if problems:
        raise ManifestError(problems)


def _depths(topology: Topology) -> dict[str, int]:
    """How many internal topics lie before each node, at most. What a hop leads to is deeper than its
    start."""
    found: dict[str, int] = {}
    written: dict[str, int] = {}
    for node in topology.nodes:
        found[node.name] = max((found[name] for name in node.inputs), default=0)
        if isinstance(node, RepartitionSink):
            written[node.topic] = found[node.name]
        elif isinstance(node, RepartitionSource):
            found[node.name] = written[node.topic] + 1
    return found


def _around(topology: Topology, node: Node, name: str) -> SubTopology:
    names = {n.name for n in (*topology.ancestors(node.name), node, *topology.descendants(node.name))}
    nodes = tuple(n for n in topology.nodes if n.name in names)
    return SubTopology(name, nodes, node.name, node.output_mode, node.stores)


@dataclass
class _Group:
    """Sinks at one depth that share sources, and all that leads to them."""

    depth: int
    sources: set[str]
    nodes: set[str]


def _stateless(topology: Topology, depths: dict[str, int]) -> list[SubTopology]:
    """Sinks that share a source share a query, so that a row is computed once however many sinks it reaches.

    Only sinks of one depth do: else two queries could each wait for what the other writes.
    """
    groups: list[_Group] = []
    for sink in topology.nodes:
        if not sink.sink or isinstance(sink, DeadLetter):
            continue
        before = topology.ancestors(sink.name)
        if any(node.subtopology is not None for node in before):
            continue
        sources = {node.name for node in before if node.source}
        group = _Group(depths[sink.name], sources, {sink.name, *(node.name for node in before)})
        apart = []
        for other in groups:
            if other.depth == group.depth and other.sources & group.sources:
                group.sources |= other.sources
                group.nodes |= other.nodes
            else:
                apart.append(other)
        groups = [*apart, group]
    return [_without_state(topology, group, depths) for group in groups]


def _without_state(topology: Topology, group: _Group, depths: dict[str, int]) -> SubTopology:
    # A source at the group's own depth: no other group of this depth has it, and none of another depth is
    # named after it.
    name = min(source for source in group.sources if depths[source] == group.depth)
    nodes = tuple(node for node in topology.nodes if node.name in group.nodes)
    return SubTopology(name, nodes, None, "append", ())
