# SPDX-License-Identifier: Apache-2.0
"""The ACLs that an app needs on Kafka, and no more. They follow from its plan, without I/O."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from streamapp.internal_topics import REPARTITION
from streamapp.plan import Plan

TOPIC, GROUP, TRANSACTIONAL_ID = "topic", "group", "transactional-id"
"""The kinds of resources, by the names of kafka-acls."""
ANY = "*"
"""The name that stands for all."""
_MADE = ("Create", "DescribeConfigs")
"""The operations to make an internal topic that is missing, and to look at the settings of one that exists."""


@dataclass(frozen=True)
class Acl:
    """Operations on one resource, by Kafka's own names. Read and Write include Describe."""

    resource: str
    name: str
    operations: tuple[str, ...]
    why: str
    """The part of the app that needs it."""
    prefixed: bool = False
    """Whether it is for all resources whose names begin with `name`."""

    def __str__(self) -> str:
        what = f"{self.resource}s that begin with" if self.prefixed else self.resource
        return f"{', '.join(self.operations)} on {what} '{self.name}' ({self.why})"


def acls_of(plan: Plan, *, deletes_topics: bool = False) -> tuple[Acl, ...]:
    """All ACLs that an app needs, each resource once: for the topics that it reads and writes, its own topics, its
    group, and its transactions.

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
                # The app shows its position as this group's offsets.
                Acl(GROUP, plan.application_id, ("Read", *deletes), "position"),
                # One for the driver, and one for each task of each sub-topology.
                Acl(TRANSACTIONAL_ID, f"{plan.application_id}/", ("Write",), "transactions", prefixed=True),
            ]
        )
    )


def _uses(role: str) -> tuple[str, ...]:
    # Records of a repartition topic are deleted once they have been read.
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
    """The known prefix of all names that match the pattern; it may be empty. ACLs have prefixes and no patterns.

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
