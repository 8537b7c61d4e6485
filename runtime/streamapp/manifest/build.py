# SPDX-License-Identifier: Apache-2.0
"""The manifest's nodes as a topology: defaults filled in, names resolved, in an order in which all inputs
come first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from streamapp.errors import Problem, near_miss
from streamapp.manifest.node import NodeSpec
from streamapp.nodes import Broken, Node, Topology, sort_nodes
from streamapp.operations import BY_NAME, Aggregate, TableJoin
from streamapp.operations.foreign_key_join import settled
from streamapp.operations.group_by import with_what_it_reads
from streamapp.operations.late import late_name


def build_partial(
    specs: Sequence[NodeSpec | str | None],
    brings: Sequence[tuple[str, ...]] = (),
    unsure: frozenset[str] = frozenset(),
    lines: Sequence[int | None] = (),
) -> tuple[Topology, list[Problem]]:
    """The topology as far as it can be made, and what stands in the way of the rest.

    Args:
        specs: the nodes; a string is the name of one that could not be read, None one without even a name.
        brings: for each node the further names it would bring (the arms of a branch).
        unsure: the nodes of which so little could be read that their columns are not known.
        lines: where each node is in the text.
    """
    builder = _Builder(specs, brings, lines)
    nodes = builder.nodes()
    ordered, in_cycle = sort_nodes(nodes)
    while in_cycle:
        way = _way_around(nodes, in_cycle)
        builder.problems.append(_cycle(way))
        cut = builder.stand_in(way[0], "from")
        nodes = [cut, *(n.with_inputs({way[-2]: cut.name}) if n.name == way[0] else n for n in nodes)]
        ordered, in_cycle = sort_nodes(nodes)
    return _settled(Topology(ordered, unsure)), builder.problems


def _settled(topology: Topology) -> Topology:
    """The topology, with nodes that depend on the kind of an input. A join of tables is one by its key, or by the rows
    that it names; a groupBy over a table may have to keep the rows. Inputs come first."""
    for place, node in enumerate(topology.nodes):
        made: Node = node
        if isinstance(node, TableJoin):
            made = settled(node, topology)
        elif isinstance(node, Aggregate):
            made = with_what_it_reads(node, topology)
        if made is not node:
            topology = Topology((*topology.nodes[:place], made, *topology.nodes[place + 1 :]), topology.unsure)
    return topology


class _Builder:
    def __init__(
        self, specs: Sequence[NodeSpec | str | None], brings: Sequence[tuple[str, ...]], lines: Sequence[int | None]
    ) -> None:
        self._specs = specs
        self._lines = lines or [None] * len(specs)
        self._brings = brings
        self.problems: list[Problem] = []
        self._stand_ins: list[Broken] = []
        self._branches: dict[str, tuple[str, ...]] = {}
        self._sinks: set[str] = set()
        self._names = self._all_names()

    def _all_names(self) -> set[str]:
        names: dict[str, int | None] = {}
        for i, spec in enumerate(self._specs):
            if spec is None:
                continue
            name = spec if isinstance(spec, str) else spec.name
            arms: tuple[str, ...] = tuple(self._brings[i]) if i < len(self._brings) else ()
            if isinstance(spec, NodeSpec):
                arms = tuple(arm.name for arm in spec.branch or ())
                if spec.branch:
                    self._branches[name] = arms
                elif spec.to:
                    self._sinks.add(name)
                elif spec.late or (spec.join and spec.join.late):
                    arms = (late_name(name),)
                    self._sinks.update(arms)
            for new in (name, *arms):
                if new in names:
                    first = f", the first in line {names[new]}" if names[new] else ""
                    message = f"two nodes are named '{new}'{first}"
                    self.problems.append(Problem(new, "name", None, message, "rename one of them", self._lines[i]))
                names.setdefault(new, self._lines[i])
        return set(names)

    def nodes(self) -> list[Node]:
        found: dict[str, Node] = {}
        for i, spec in enumerate(self._specs):
            made: Iterable[Node] = ()
            if isinstance(spec, NodeSpec):
                made = BY_NAME[spec.operation].of(spec, _Making(self, spec, i))
            elif spec is not None:
                arms = self._brings[i] if i < len(self._brings) else ()
                made = [Broken(name) for name in (spec, *arms)]
            for node in made:
                found.setdefault(node.name, node)
        return [*self._stand_ins, *found.values()]

    def stand_in(self, node: str, field: str) -> Broken:
        """A node in place of an input that does not exist, so that the rest of the node can be checked."""
        found = Broken(f"{node}\0{field}\0{len(self._stand_ins)}", given=False)
        self._stand_ins.append(found)
        return found

    def input(self, spec: NodeSpec, place: int) -> str | None:
        if spec.from_ is not None:
            return self.resolve(spec.name, "from", spec.from_)
        above = self._specs[place - 1] if place else None
        if place and above is None:
            return None  # the node above has no name: that is its own problem
        if isinstance(above, str):
            return above
        if above is None:
            self.problems.append(
                Problem(
                    spec.name,
                    "from",
                    None,
                    "`from` is missing, and there is no node above",
                    "name the node to read",
                )
            )
            return None
        for what, found in (("sink", above.to), ("branch", above.branch)):
            if found is not None:
                hint = f"e.g. from: {self._branches[above.name][0]}" if what == "branch" else "name the node to read"
                self.problems.append(
                    Problem(
                        spec.name,
                        "from",
                        None,
                        f"`from` is missing, and the node above, '{above.name}', is a {what}",
                        hint,
                    )
                )
                return None
        return above.name

    def resolve(self, node: str, field: str, name: str) -> str | None:
        if name not in self._names:
            readable = [
                known
                for known in sorted(self._names)
                if known not in self._sinks and known not in self._branches and known != node
            ]
            fix = near_miss(name, readable) or (f"there are: {', '.join(readable)}" if readable else None)
            self.problems.append(Problem(node, field, None, f"there is no node '{name}'", fix))
            return None
        if name in self._sinks:
            self.problems.append(
                Problem(node, field, None, f"'{name}' is a sink and has no output", "read the node before it")
            )
            return None
        if name in self._branches:
            arms = ", ".join(self._branches[name])
            self.problems.append(
                Problem(node, field, None, f"'{name}' is a branch", f"read one of its branches: {arms}")
            )
            return None
        return name


class _Making:
    """One of the nodes, on its way to its operation."""

    def __init__(self, builder: _Builder, spec: NodeSpec, place: int) -> None:
        self._builder, self._spec, self._place = builder, spec, place
        self.problems = builder.problems

    @property
    def input(self) -> str:
        return self._builder.input(self._spec, self._place) or self.stand_in("from")

    def resolve(self, field: str, name: str) -> str | None:
        return self._builder.resolve(self._spec.name, field, name)

    def stand_in(self, field: str) -> str:
        return self._builder.stand_in(self._spec.name, field).name


def _way_around(nodes: Sequence[Node], in_cycle: tuple[str, ...]) -> list[str]:
    """One cycle: from a node that nothing outside of cycles feeds, backwards until a node comes
    again."""
    inputs = {node.name: [name for name in node.inputs if name in in_cycle] for node in nodes}
    way = [in_cycle[0]]
    while way.count(way[-1]) < 2:
        way.append(inputs[way[-1]][0])
    return way[way.index(way[-1]) :][::-1]


def _cycle(way: Sequence[str]) -> Problem:
    return Problem(way[0], "from", None, f"reads itself: {' → '.join(way)}", "make one of them read another node")
