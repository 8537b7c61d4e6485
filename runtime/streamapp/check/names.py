# SPDX-License-Identifier: Apache-2.0
"""Names: of nodes and stores, which become parts of topic names, and of the topics themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator

from streamapp.errors import Problem
from streamapp.internal_topics import changelog_topic, longest_topic, metadata_topic, position_topic
from streamapp.nodes import Node, Topology, is_given
from streamapp.patterns import PatternError, matches, require_pattern

_TOPIC_PART = re.compile(r"[a-zA-Z0-9._-]+")
LONGEST_TOPIC = 249
"""Kafka's limit."""
LEGAL = "letters, digits, `.`, `_` and `-`"


def check_names(topology: Topology, application_id: str) -> Iterator[Problem]:
    """Names that Kafka would refuse or that mean two things."""
    yield from _check_application_id(application_id)
    for node in topology.nodes:
        if is_given(node):
            yield from _check_part(node.name, "name", node.name)
    yield from _check_stores(topology, application_id)
    yield from _check_topics(topology, application_id)


def topic_fault(topic: str) -> str | None:
    """Why Kafka would not take this as a topic's name; None when it would.

    >>> topic_fault("text-lines") is None
    True
    >>> topic_fault("text lines")
    'is no topic name: letters, digits, `.`, `_` and `-` only'
    """
    if not topic:
        return "is empty"
    if not _TOPIC_PART.fullmatch(topic) or topic in (".", ".."):
        return f"is no topic name: {LEGAL} only"
    if len(topic) > LONGEST_TOPIC:
        return f"has {len(topic)} characters, and a topic's name at most {LONGEST_TOPIC}"
    return None


def _check_application_id(application_id: str) -> Iterator[Problem]:
    if not _TOPIC_PART.fullmatch(application_id) or application_id in (".", ".."):
        yield Problem(
            None,
            "applicationId",
            application_id,
            f"'{application_id}' cannot be the prefix of topics' names",
            f"use {LEGAL}",
        )


def _check_part(node: str, field: str, name: str) -> Iterator[Problem]:
    if not _TOPIC_PART.fullmatch(name) or name in (".", ".."):
        yield Problem(node, field, name, f"'{name}' cannot be part of a topic's name", f"use {LEGAL}")
    elif name.startswith("__"):
        yield Problem(
            node,
            field,
            name,
            f"'{name}' starts with two underscores, as the engine's own names do",
            "rename it",
        )


def _check_stores(topology: Topology, application_id: str) -> Iterator[Problem]:
    owners: dict[str, str] = {}
    for node in topology.nodes:
        for store in node.stores:
            if store != node.name:
                yield from _check_part(node.name, "store", store)
            if store in owners:
                yield Problem(
                    node.name,
                    "store",
                    store,
                    f"store '{store}' is already that of node '{owners[store]}'",
                    "give each its own name",
                )
            owners.setdefault(store, node.name)
        # The changelog's name is made of the store's, a repartition topic's of the node's.
        longest = max(longest_topic(application_id, name) for name in (*node.stores, node.name))
        if node.stores and longest > LONGEST_TOPIC:
            yield Problem(
                node.name,
                "name",
                None,
                f"names of its internal topics would have {longest} characters; Kafka takes {LONGEST_TOPIC}",
                "shorten applicationId, name or store",
            )


def _check_topics(topology: Topology, application_id: str) -> Iterator[Problem]:
    sources = [node for node in topology.nodes if node.source]
    internal = {metadata_topic(application_id), position_topic(application_id)}
    internal |= {changelog_topic(application_id, store) for node in topology.nodes for store in node.stores}
    for source in sources:
        for topic in source.topics_read:
            yield from _check_topic(source, topic, internal, "read another topic")
        if source.pattern_read is not None:
            yield from _check_pattern(source, source.pattern_read, internal)
    for sink in topology.nodes:
        for topic in sink.topics_written:
            yield from _check_topic(sink, topic, internal, "write to another topic")
            readers = (source for source in sources if topic in source.topics_read)
            reader = next(readers, None) or next((s for s in sources if _matches(s.pattern_read, topic)), None)
            if reader is not None:
                yield Problem(
                    sink.owner,
                    sink.topic_field,
                    topic,
                    f"topic '{topic}' is also read, by node '{reader.name}': the app would feed itself for ever",
                    "write to another topic",
                )


def _check_topic(node: Node, topic: str, internal: set[str], fix: str) -> Iterator[Problem]:
    field, fault = node.topic_field, topic_fault(topic)
    if fault:
        yield Problem(node.owner, field, topic, f"topic '{topic}' {fault}", None)
    elif topic in internal:
        yield Problem(node.owner, field, topic, f"topic '{topic}' is internal to this app", fix)


def _check_pattern(source: Node, pattern: str, internal: set[str]) -> Iterator[Problem]:
    field = f"{source.operation}.pattern"
    try:
        require_pattern(pattern)
    except PatternError as error:
        yield Problem(source.name, field, pattern, f"is no regular expression: {error}", "write e.g. orders-.*")
        return
    caught = next((topic for topic in sorted(internal) if _matches(pattern, topic)), None)
    if caught is not None:
        message = f"matches '{caught}', a topic internal to this app"
        yield Problem(source.name, field, pattern, message, "make the pattern narrower")


def _matches(pattern: str | None, topic: str) -> bool:
    try:
        return pattern is not None and matches(pattern, topic)
    except PatternError:
        return False
