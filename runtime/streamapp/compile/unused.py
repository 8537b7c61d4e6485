# SPDX-License-Identifier: Apache-2.0
"""The pass that leaves out what nothing comes of."""

from __future__ import annotations

from streamapp.compile.context import Context
from streamapp.errors import ManifestError, Problem
from streamapp.nodes import Topology


def drop_unused(topology: Topology, context: Context) -> Topology:
    """Without the nodes that lead to no sink and no store.

    A branch may well take records nobody wants. A store without a sink stays: it can be asked.

    Raises:
        ManifestError: when nothing is left.
    """
    needed: set[str] = set()
    for node in reversed(topology.nodes):
        if node.sink or node.stateful or node.name in needed:
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
