# SPDX-License-Identifier: Apache-2.0
"""The graph of nodes, and the properties of each that are known without running anything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from streamapp.nodes.columns import Columns
from streamapp.nodes.internal import is_given
from streamapp.nodes.node import Node


@dataclass(frozen=True)
class Topology:
    """Nodes in an order in which each comes after its inputs.

    Raises:
        ValueError: when a name is used twice, or an input is not before its reader.
    """

    nodes: tuple[Node, ...]
    unsure: frozenset[str] = frozenset()
    """Nodes that could be read in part only, so that their columns are not known. Empty in a topology that is run."""

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for node in self.nodes:
            missing = [name for name in node.inputs if name not in seen]
            if missing:
                raise ValueError(f"node '{node.name}' comes before its input '{missing[0]}'")
            if node.name in seen:
                raise ValueError(f"two nodes are named '{node.name}'")
            seen.add(node.name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def node(self, name: str) -> Node:
        """The node of that name; KeyError when there is none."""
        return self._by_name[name]

    def consumers(self, name: str) -> tuple[Node, ...]:
        """The nodes that read its output, in order."""
        return self._consumers.get(name, ())

    def kind(self, name: str) -> str:
        """STREAM (independent events) or TABLE (the latest value of each key)."""
        return self._kinds[name]

    def columns(self, name: str) -> Columns:
        """The columns of a node's output; for a sink, those of its input."""
        return self._columns[name]

    def key_columns(self, name: str) -> tuple[str, ...]:
        """The names of the columns that make up the key of a node's output."""
        return self._columns[name].key

    def ancestors(self, name: str) -> tuple[Node, ...]:
        """Everything that flows into the node, in order, without itself."""
        found: set[str] = set()
        waiting = list(self.node(name).inputs)
        while waiting:
            current = waiting.pop()
            if current not in found:
                found.add(current)
                waiting.extend(self.node(current).inputs)
        return tuple(node for node in self.nodes if node.name in found)

    def descendants(self, name: str) -> tuple[Node, ...]:
        """Everything that the node flows into, in order, without itself."""
        found: set[str] = set()
        waiting = [name]
        while waiting:
            for consumer in self.consumers(waiting.pop()):
                if consumer.name not in found:
                    found.add(consumer.name)
                    waiting.append(consumer.name)
        return tuple(node for node in self.nodes if node.name in found)

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def _consumers(self) -> dict[str, tuple[Node, ...]]:
        found: dict[str, tuple[Node, ...]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                found[name] = (*found.get(name, ()), node)
        return found

    @cached_property
    def _kinds(self) -> dict[str, str]:
        kinds: dict[str, str] = {}
        for node in self.nodes:
            kinds[node.name] = node.output_kind([kinds[name] for name in node.inputs])
        return kinds

    @cached_property
    def _columns(self) -> dict[str, Columns]:
        found: dict[str, Columns] = {}
        for node in self.nodes:
            columns = node.output_columns([found[name] for name in node.inputs])
            found[node.name] = replace(columns, known=False) if node.name in self.unsure else columns
        return found

    @cached_property
    def half_checked(self) -> tuple[str, ...]:
        """The nodes of the manifest that cannot be checked in full, as they or what they read could not be read."""
        return tuple(
            node.name
            for node in self.nodes
            if is_given(node) and not all(self.columns(name).known for name in (node.name, *node.inputs))
        )


def sort_nodes(nodes: Iterable[Node]) -> tuple[tuple[Node, ...], tuple[str, ...]]:
    """Nodes in an order in which each comes after its inputs, otherwise as given; and the names caught in
    cycles.

    Inputs that are no node's name are left out of account.
    """
    given = tuple(nodes)
    names = {node.name for node in given}
    waiting_for = {node.name: {name for name in node.inputs if name in names} for node in given}
    readers: dict[str, list[str]] = {}
    for node in given:
        for name in waiting_for[node.name]:
            readers.setdefault(name, []).append(node.name)
    by_name = {node.name: node for node in given}
    place = {node.name: i for i, node in enumerate(given)}
    ordered: list[Node] = []
    # Depth first, so that a chain stays together as its author wrote it.
    ready = [node.name for node in reversed(given) if not waiting_for[node.name]]
    while ready:
        name = ready.pop()
        ordered.append(by_name[name])
        freed = []
        for reader in readers.get(name, ()):
            waiting_for[reader].discard(name)
            if not waiting_for[reader]:
                freed.append(reader)
        ready.extend(sorted(freed, key=lambda n: -place[n]))
    done = {node.name for node in ordered}
    return tuple(ordered), tuple(node.name for node in given if node.name not in done)
