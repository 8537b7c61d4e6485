# SPDX-License-Identifier: Apache-2.0
"""The cut topology as sub-topologies."""

from __future__ import annotations

from dataclasses import dataclass

from streamapp.compile.repartition import is_repeatable
from streamapp.compile.tasks import Tasks
from streamapp.errors import ManifestError, Problem
from streamapp.nodes import TABLE, DeadLetter, Node, RepartitionSink, RepartitionSource, Topology
from streamapp.operations import Stream
from streamapp.plan import SubTopology


def split(topology: Topology) -> tuple[SubTopology, ...]:
    """One sub-topology for each stateful node or task, for each group of connected sources that lead to a sink
    without one, and for each source's dead letters. Each comes after those whose internal topics it reads.

    Raises:
        ManifestError: when two would have the same name.
    """
    depths = _depths(topology)
    parts = [
        SubTopology(node.subtopology, _around(topology, (node,)), (node.name,), (), node.output_mode, node.stores)
        for node in topology.nodes
        if node.subtopology is not None
    ]
    parts += _tasks(topology)
    parts += _stateless(topology, depths)
    parts += [
        SubTopology(node.name, (_read_alone(topology.node(node.input)), node), (), (), "append", ())
        for node in topology.nodes
        if isinstance(node, DeadLetter)
    ]
    _require_names(parts)
    place = {node.name: i for i, node in enumerate(topology.nodes)}
    return _in_order(sorted(parts, key=lambda part: place[part.nodes[-1].name]))


def _in_order(parts: list[SubTopology]) -> tuple[SubTopology, ...]:
    """The parts, each behind those that write the topics it reads, the shallower first, else in their order."""
    writers = {topic: part.name for part in parts for topic in part.writes_internally}
    waiting = {part.name: {writers[topic] for topic in part.reads_internally} for part in parts}
    ordered: list[SubTopology] = []
    while waiting:
        ready = [part for part in parts if part.name in waiting and not waiting[part.name] & waiting.keys()]
        ordered += ready
        for part in ready:
            del waiting[part.name]
    return tuple(ordered)


def _require_names(parts: list[SubTopology]) -> None:
    """Raises where two have one name: a sub-topology's offsets, transactions and metrics stand under its name."""
    stateless = {part.name for part in parts if not part.stateful}
    problems = [
        Problem(
            part.stateful[0],
            "store",
            part.name,
            f"store '{part.name}' is also the name of a node whose records leave without passing a store: two "
            "sub-topologies would have that name",
            "give the store another name",
        )
        for part in parts
        if part.stateful and part.name in stateless
    ]
    if problems:
        raise ManifestError(problems)


def _depths(topology: Topology) -> dict[str, int]:
    """The number of internal topics before each node, at most. The far side of a hop is deeper than its near
    side."""
    found: dict[str, int] = {}
    written: dict[str, int] = {}
    for node in topology.nodes:
        found[node.name] = max((found[name] for name in node.inputs), default=0)
        if isinstance(node, RepartitionSink):
            written[node.topic] = found[node.name]
        elif isinstance(node, RepartitionSource):
            found[node.name] = written[node.topic] + 1
    return found


def _around(topology: Topology, inner: tuple[Node, ...]) -> tuple[Node, ...]:
    """These nodes, all that leads to them and all that they lead to. Dead letters leave before a source's shuffle."""
    names = {
        n.name
        for node in inner
        for n in (*topology.ancestors(node.name), node, *topology.descendants(node.name))
        if not isinstance(n, DeadLetter)
    }
    return tuple(n for n in topology.nodes if n.name in names)


def _tasks(topology: Topology) -> list[SubTopology]:
    """The sub-topologies of nodes that share tasks, each named after its first store."""
    tasks = Tasks()
    of: dict[str, str] = {}
    """The task in which a node runs, or could."""
    for node in topology.nodes:
        before = [of[name] for name in node.inputs if name in of and not topology.node(name).leaves_task]
        if node.in_task:
            of[node.name] = tasks.unite(before, node.name)
        elif node.row_wise and before and is_repeatable(node):
            of[node.name] = before[0]
    needed: set[str] = set()
    for node in reversed(topology.nodes):
        if node.name in of and (node.in_task or node.name in needed or topology.kind(node.name) == TABLE):
            needed.update((node.name, *(name for name in node.inputs if name in of)))
    found: dict[str, list[Node]] = {}
    for node in topology.nodes:
        if node.name in needed:
            found.setdefault(tasks.whole(of[node.name]), []).append(node)
    return [_task(topology, tuple(nodes)) for nodes in found.values()]


def _task(topology: Topology, nodes: tuple[Node, ...]) -> SubTopology:
    stateful = tuple(node.name for node in nodes if node.in_task)
    stores = tuple(store for node in nodes for store in node.stores)
    names = tuple(node.name for node in nodes)
    return SubTopology(stores[0], _around(topology, nodes), stateful, names, "append", stores)


def _read_alone(source: Node) -> Node:
    """The source as a stream of its records, whatever is kept of them elsewhere."""
    return source.as_stream() if isinstance(source, Stream) else source


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
        if any(node.keyed for node in before):
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
    return SubTopology(name, nodes, (), (), "append", ())
