# SPDX-License-Identifier: Apache-2.0
"""From a manifest to a plan: named passes over the topology, then the cut into sub-topologies.

A sub-topology is one query. It has at most one shuffle, and so at most one stateful node, or several that share a
task. Records go from one sub-topology to another through an internal topic. All passes are listed, in order, in
`PASSES`.
"""

from __future__ import annotations

from collections.abc import Callable

from streamapp.compile.assemble import assemble_plan
from streamapp.compile.cogroups import make_cogroups_groups
from streamapp.compile.context import Context
from streamapp.compile.dead_letters import add_dead_letters
from streamapp.compile.folds import fold_what_is_needed_in_tasks
from streamapp.compile.repartition import cut_by_internal_topics
from streamapp.compile.split import split
from streamapp.compile.times import carry_times
from streamapp.compile.unused import drop_unused
from streamapp.compile.verify import verify_cut
from streamapp.manifest import Manifest
from streamapp.nodes import Topology
from streamapp.plan import Plan

Pass = Callable[[Topology, Context], Topology]

PASSES: tuple[Pass, ...] = (
    drop_unused,
    add_dead_letters,
    make_cogroups_groups,
    fold_what_is_needed_in_tasks,
    cut_by_internal_topics,
    verify_cut,
)
"""Each makes a new topology of the one before. After them, no way through the topology has two stateful
nodes."""

__all__ = ["PASSES", "compile_manifest"]


def compile_manifest(manifest: Manifest) -> Plan:
    """The plan of a manifest. The same manifest always gives the same plan.

    Raises:
        ManifestError: when what the passes make does not fit together.
    """
    topology = manifest.topology
    context = Context.of(manifest)
    for one in PASSES:
        topology = one(topology, context)
    return assemble_plan(manifest, context, manifest.topology, carry_times(split(topology)))
