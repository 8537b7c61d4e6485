# SPDX-License-Identifier: Apache-2.0
"""The check of a topology: every problem at once, each with its node, field, value and fix."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, islice

from streamapp.check.clock import check_clock
from streamapp.check.code import check_code
from streamapp.check.names import check_names
from streamapp.errors import Problem
from streamapp.nodes import Topology

__all__ = ["check_topology"]
_MOST = 1000
"""The most problems that are looked for: nobody reads more at a time."""


def check_topology(
    topology: Topology, application_id: str, modules: Mapping[str, str] | None = None
) -> tuple[Problem, ...]:
    """Everything that is wrong, or the first thousand things; empty when the topology can be run.

    Args:
        topology: as the user wrote it.
        application_id: prefix of its topics.
        modules: the user's code, file name to text; None: it is not known here.
    """
    found = chain(
        check_names(topology, application_id),
        check_clock(topology),
        chain.from_iterable(node.check(topology) for node in topology.nodes),
        check_code(topology, modules) if modules is not None else (),
    )
    return tuple(islice(found, _MOST))
