# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a topology: every problem at once, each with its node, field, value and fix."""

from __future__ import annotations

from streamapp.check.names import check_names
from streamapp.check.operations import check_nodes
from streamapp.errors import Problem
from streamapp.nodes import Topology

__all__ = ["check_topology"]


def check_topology(topology: Topology, application_id: str) -> tuple[Problem, ...]:
    """Everything that is wrong; empty when the topology can be run."""
    return (*check_names(topology, application_id), *check_nodes(topology))
