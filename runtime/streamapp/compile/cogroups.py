# SPDX-License-Identifier: Apache-2.0
"""The pass that makes a `groupBy` of a cogroup.

The records of all its streams become one stream, each with its group and, in a struct of its stream's own, the columns
to aggregate. An aggregate takes the records that have its struct. So windows, stream time and late records are those of
any `groupBy`, and a group is read and written once for all streams.
"""

from __future__ import annotations

from collections.abc import Iterator

from streamapp.compile.context import Context, free
from streamapp.expressions import quote, read_expression
from streamapp.nodes import Node, Topology
from streamapp.nodes.pairs import names_of
from streamapp.operations import Aggregate, Cogroup, CogroupedRecords, Merge
from streamapp.operations.cogroup import Part, struct_of


def make_cogroups_groups(topology: Topology, context: Context) -> Topology:
    """The topology without cogroups.

    Raises:
        ManifestError: when a node has the name of one that is made.
    """
    nodes: list[Node] = []
    for node in topology.nodes:
        nodes += _groups(topology, node) if isinstance(node, Cogroup) else (node,)
    return Topology(tuple(nodes))


def _groups(topology: Topology, node: Cogroup) -> Iterator[Node]:
    records = []
    for i, part in enumerate(node.parts):
        name = free(f"{node.store}-{part.input}", f"the records of '{part.input}' in '{node.name}'", topology)
        made = CogroupedRecords(name, part.input, node.by, _used(topology, node, part), struct_of(i), node.name)
        records.append(made)
        yield made
    merged = free(f"{node.store}-merged", f"the records of all streams of '{node.name}'", topology)
    yield Merge(merged, tuple(made.name for made in records), node.name)
    within = ((name, made.struct) for part, made in zip(node.parts, records, strict=True) for name, _ in part.columns)
    yield Aggregate(
        node.name,
        merged,
        by=tuple((name, quote(name)) for name in names_of(node.by)),
        columns=node.columns,
        window=node.window,
        grace_ms=node.grace_ms,
        emit=node.emit,
        store=node.store,
        retention_ms=node.retention_ms,
        ttl_ms=node.ttl_ms,
        late=node.late,
        within=tuple(sorted(within)),
    )


def _used(topology: Topology, node: Cogroup, part: Part) -> tuple[str, ...]:
    """The columns of a stream that are aggregated; those of the group are there already. All columns where its late
    records go to a topic."""
    columns = topology.columns(part.input)
    if node.late is not None:
        return tuple(sorted(columns.value))
    groups = {name.lower() for name in names_of(node.by)}
    used = {parts[0].lower() for _, text in part.columns for parts in read_expression(text).columns} - groups
    return tuple(sorted(found for name in used if (found := columns.find(name)) is not None))
