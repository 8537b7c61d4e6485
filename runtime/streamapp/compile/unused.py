# SPDX-License-Identifier: Apache-2.0
"""The pass that leaves out nodes without any effect."""

from __future__ import annotations

from streamapp.compile.context import Context
from streamapp.errors import ManifestError, Problem
from streamapp.manifest import Manifest
from streamapp.nodes import Topology
from streamapp.operations import Arm, Branch


def drop_unused(topology: Topology, context: Context) -> Topology:
    """The topology without the nodes that lead to no sink and no store.

    A branch may well take records nobody wants. A store without a sink stays: it can be asked.

    Raises:
        ManifestError: when nothing is left.
    """
    needed: set[str] = set()
    for node in reversed(topology.nodes):
        if node.sink or node.stores or node.name in needed:
            needed.add(node.name)
            needed.update(node.inputs)
    if not needed:
        raise ManifestError(
            [
                Problem(
                    None,
                    "topology",
                    None,
                    "the topology writes no topic and keeps no state",
                    "add a `to` node, e.g. {name: out, to: {topic: results}}",
                )
            ]
        )
    return Topology(tuple(node for node in topology.nodes if node.name in needed))


def leads_nowhere(manifest: Manifest) -> tuple[Problem, ...]:
    """A note on each end of the topology at which records are dropped: it may be meant so, or a `to` was forgotten."""
    topology = manifest.topology
    return tuple(
        Problem(
            node.name,
            None,
            None,
            "leads nowhere: no node reads this branch"
            if isinstance(node, Arm)
            else "leads nowhere: it has no `to`, and no node reads it",
            f"its records are dropped; to keep them, add e.g. {{from: {node.name}, to: {{topic: …}}}}",
        )
        for node in topology.nodes
        if not (node.sink or node.stores or isinstance(node, Branch) or topology.consumers(node.name))
    )
