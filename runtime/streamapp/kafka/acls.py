# SPDX-License-Identifier: Apache-2.0
"""What an app must be allowed to do on Kafka, and nothing beyond that: pure, from its plan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from streamapp.internal_topics import REPARTITION
from streamapp.plan import Plan

TOPIC, GROUP, TRANSACTIONAL_ID = "topic", "group", "transactional-id"
"""Kinds of resources, as kafka-acls calls them."""
ANY = "*"
"""Name that stands for all."""
_MADE = ("Create", "DescribeConfigs")
"""An internal topic is made when it is missing, and its settings are looked at when it is not."""


@dataclass(frozen=True)
class Acl:
    """Operations on one resource, by Kafka's own names. Read and Write include Describe."""

    resource: str
    name: str
    operations: tuple[str, ...]
    why: str
    """What needs it."""
    prefixed: bool = False
    """Whether it is for all resources whose names begin with `name`."""

    def __str__(self) -> str:
        what = f"{self.resource}s that begin with" if self.prefixed else self.resource
        return f"{', '.join(self.operations)} on {what} '{self.name}' ({self.why})"


def acls_of(plan: Plan, *, deletes_topics: bool = False) -> tuple[Acl, ...]:
    """All that an app needs, each resource once: what it reads, what it writes, its own topics, its group, and its
    transactions.

    Args:
        deletes_topics: whether internal topics and group are deleted with the app.
    """
    deletes = ("Delete",) if deletes_topics else ()
    own = [Acl(TOPIC, topic.name, (*_MADE, *_uses(topic.role), *deletes), topic.role) for topic in plan.topics]
    return tuple(
        _merged(
            [
                *_of_nodes(plan),
                *own,
                # Where the app stands is shown as this group's offsets.
                Acl(GROUP, plan.application_id, ("Read", *deletes), "position"),
                # One for the driver, and one for each task of each sub-topology.
                Acl(TRANSACTIONAL_ID, f"{plan.application_id}/", ("Write",), "transactions", prefixed=True),
            ]
        )
    )


def _uses(role: str) -> tuple[str, ...]:
    # What has been read of a repartition topic is deleted from it.
    return ("Read", "Write", "Delete") if role == REPARTITION else ("Read", "Write")


def _of_nodes(plan: Plan) -> Iterator[Acl]:
    for node in (node for part in plan.subtopologies for node in part.nodes):
        if node.internal:
            continue
        owner = f"node '{node.owner}'"
        yield from (Acl(TOPIC, topic, ("Read",), owner) for topic in node.topics_read)
        if node.pattern_read is not None:
            prefix = literal_prefix(node.pattern_read)
            yield Acl(TOPIC, prefix or ANY, ("Read",), owner, prefixed=bool(prefix))
        yield from (Acl(TOPIC, topic, ("Write",), owner) for topic in node.topics_written)


def literal_prefix(pattern: str) -> str:
    """What every name that fits begins with, as far as that can be told: an ACL knows prefixes and no patterns.

    >>> [literal_prefix(pattern) for pattern in ("orders-[a-z]+", "orders-x?", "a|b", r"shop\\.\\d")]
    ['orders-', 'orders-', '', 'shop.']
    """
    if "|" in pattern:
        return ""
    prefix, rest = "", pattern.removeprefix("^")
    while found := re.match(r"\\([^\w\s])|([\w-])", rest):
        rest = rest[found.end() :]
        if rest[:1] in ("?", "*", "{"):  # then the character may be missing
            break
        prefix += found[1] or found[2]
    return prefix


def _merged(acls: Iterable[Acl]) -> Iterator[Acl]:
    found: dict[tuple[str, str, bool], Acl] = {}
    for acl in acls:
        key = acl.resource, acl.name, acl.prefixed
        old = found.get(key)
        operations = tuple(dict.fromkeys((*(old.operations if old is not None else ()), *acl.operations)))
        found[key] = replace(old or acl, operations=operations)
    yield from found.values()
