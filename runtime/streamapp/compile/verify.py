# SPDX-License-Identifier: Apache-2.0
"""The pass that changes nothing: the names that the cut made must not meet those that the user chose."""

from __future__ import annotations

from collections.abc import Iterator

from streamapp.compile.context import Context
from streamapp.errors import ManifestError, Problem
from streamapp.nodes import Aggregate, DeadLetter, Join, RepartitionSink, Sink, Stream, Topology


def verify_cut(topology: Topology, context: Context) -> Topology:
    """The same topology.

    Raises:
        ManifestError: when an internal topic is also a user's topic, or two internal topics are one.
    """
    problems = list(_clashes(topology, context))
    if problems:
        raise ManifestError(problems)
    return topology


def _clashes(topology: Topology, context: Context) -> Iterator[Problem]:
    owners = {
        f"{context.application_id}-metadata": "the app",
        f"{context.application_id}-position": "the app",
    }
    for node in topology.nodes:
        if isinstance(node, Aggregate | Join):
            topic = context.topic(node.store, "changelog")
        elif isinstance(node, RepartitionSink):
            topic = node.topic
        else:
            continue
        if topic in owners:
            yield Problem(
                node.name,
                None,
                None,
                f"its internal topic '{topic}' is also that of {owners[topic]}",
                "rename one of the nodes",
            )
        owners[topic] = f"'{node.name}'"
    for node in topology.nodes:
        topics = (
            node.topics
            if isinstance(node, Stream)
            else (node.topic,)
            if isinstance(node, Sink | DeadLetter)
            else ()
        )
        for topic in topics:
            if topic in owners:
                yield Problem(
                    node.name,
                    None,
                    None,
                    f"topic '{topic}' is internal to this app (of {owners[topic]})",
                    "use another topic",
                )
