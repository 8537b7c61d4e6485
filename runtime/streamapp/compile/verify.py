# SPDX-License-Identifier: Apache-2.0
"""The pass that changes nothing: it checks that names made by the cut do not meet those that the user chose."""

from __future__ import annotations

from collections.abc import Iterator

from streamapp.check.names import topic_fault
from streamapp.compile.context import Context
from streamapp.errors import ManifestError, Problem
from streamapp.internal_topics import changelog_topic, metadata_topic, position_topic
from streamapp.nodes import DeadLetter, RepartitionSink, RepartitionSource, Topology


def verify_cut(topology: Topology, context: Context) -> Topology:
    """The same topology.

    Raises:
        ManifestError: when an internal topic is also a user's topic, two internal topics are one, an internal topic's
            name is too long, or bad records would be read again.
    """
    problems = [*_clashes(topology, context), *_too_long(topology), *_loops(topology)]
    if problems:
        raise ManifestError(problems)
    return topology


def _clashes(topology: Topology, context: Context) -> Iterator[Problem]:
    app = context.application_id
    owners = {metadata_topic(app): "the app", position_topic(app): "the app"}
    for node in topology.nodes:
        hops = node.topics_written if node.internal else ()
        for topic in (*(changelog_topic(app, store) for store in node.stores), *hops):
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
        for topic in () if node.internal else (*node.topics_read, *node.topics_written):
            if topic in owners:
                yield Problem(
                    node.name,
                    None,
                    None,
                    f"topic '{topic}' is internal to this app (of {owners[topic]})",
                    "use another topic",
                )


def _too_long(topology: Topology) -> Iterator[Problem]:
    for node in topology.nodes:
        if isinstance(node, RepartitionSink) and (fault := topic_fault(node.topic)):
            reader = next(n for n in topology.nodes if isinstance(n, RepartitionSource) and n.topic == node.topic)
            (owner,) = topology.consumers(reader.name)
            message = f"its internal topic '{node.topic}' {fault}"
            yield Problem(owner.name, "name", None, message, f"shorten applicationId, '{owner.name}' or '{node.input}'")


def _loops(topology: Topology) -> Iterator[Problem]:
    """Problems of bad records that are written to a topic where they are bad records again: this would never end."""
    for node in topology.nodes:
        source = topology.node(node.input) if isinstance(node, DeadLetter) else None
        if isinstance(node, DeadLetter) and source is not None and source.reads(node.topic):
            message = (
                f"topic '{node.topic}' is also read, by node '{source.name}': bad records would come again for ever"
            )
            yield Problem(None, "onBadRecord.deadLetter", node.topic, message, "send bad records to another topic")
