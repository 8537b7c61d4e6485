# SPDX-License-Identifier: Apache-2.0
"""The context of the passes: the settings that they use besides the topology."""

from __future__ import annotations

from dataclasses import dataclass

from streamapp.errors import ManifestError, Problem
from streamapp.manifest import Manifest
from streamapp.manifest.model import DeadLetterSpec
from streamapp.nodes import Topology
from streamapp.plan import OnBadRecord


@dataclass(frozen=True)
class Context:
    """The parts of a manifest that shape its cut."""

    application_id: str
    max_parallelism: int
    on_bad_record: OnBadRecord

    @staticmethod
    def of(manifest: Manifest) -> Context:
        spec = manifest.spec
        bad = spec.on_bad_record
        on_bad = OnBadRecord("DeadLetter", bad.dead_letter) if isinstance(bad, DeadLetterSpec) else OnBadRecord(bad)
        return Context(manifest.application_id, spec.max_parallelism, on_bad)


def free(name: str, what: str, topology: Topology) -> str:
    """The name of a node that a pass makes. Positions and topics are known by it, so it cannot give way.

    Args:
        name: of the node.
        what: what it is for.
        topology: the user's.

    Raises:
        ManifestError: when the user has a node of that name.
    """
    if any(node.name == name for node in topology.nodes):
        problem = Problem(name, "name", name, f"'{name}' is also the name of a node of ours, for {what}", "rename it")
        raise ManifestError([problem])
    return name
