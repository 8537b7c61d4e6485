# SPDX-License-Identifier: Apache-2.0
"""Checks, before an app starts, that Kafka lets it do all that it must: an app that fails half-way says less."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from streamapp import failpoint
from streamapp.errors import RunError
from streamapp.internal_topics import METADATA
from streamapp.kafka.acls import ANY, GROUP, TOPIC, Acl, acls_of
from streamapp.kafka.admin import Admin, TopicSpec
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.group import may_read
from streamapp.kafka.topics import ensure_topics, topics_of
from streamapp.plan import Plan


class NotAllowed(RunError):
    """Kafka does not let the app do what it must. `what` says what that is."""

    def __init__(self, *what: str) -> None:
        super().__init__(
            f"Kafka does not allow what the app needs: {'; '.join(what)}; allow it: `streamapp topics FILE --acls` "
            "prints how"
        )


def make_ready(kafka: KafkaConfig, plan: Plan, create_all: bool = False, file: str = "FILE") -> list[TopicSpec]:
    """Makes the metadata topic, and with `create_all` the user's topics, where they are missing, and returns them (see
    `ensure_topics`). The other internal topics are only compared: `claim` makes them, once the metadata topic shows
    that they may be ours.

    Raises:
        NotAllowed: with everything that is not allowed.
        TopicError: when topics are missing or wrong.
    """
    admin = Admin(kafka)
    require_access(kafka, admin, plan, patterns=not create_all)
    claimed = {topic.name for topic in plan.topics if topic.role != METADATA}
    made = ensure_topics(admin, topics_of(plan), create_all, file, left=claimed)
    failpoint.hit("driver.topics-made")
    if made:
        require_access(kafka, admin, plan, patterns=not create_all)
    return made


def require_access(kafka: KafkaConfig, admin: Admin, plan: Plan, patterns: bool = True) -> None:
    """Checks that Kafka allows all that the plan needs.

    Args:
        patterns: whether there must be a topic for each pattern. Kafka hides topics that we may not read, and a source
            that sees none would wait for ever.

    Raises:
        NotAllowed: when Kafka says that something is not allowed. It cannot be asked about transactional ids.
    """
    acls = acls_of(plan)
    topics = {acl.name: acl for acl in acls if acl.resource == TOPIC and not acl.prefixed and acl.name != ANY}
    allowed = admin.allowed_on(list(topics))
    missing = list(_missing(topics.values(), allowed))
    if patterns:
        missing += [
            f"{acl}, or no such topic exists: Kafka's answer is the same for both" for acl in _unseen(acls, admin)
        ]
    there = [(topic, 0) for topic in list(allowed)[:1]]
    missing += [str(acl) for acl in acls if acl.resource == GROUP and not may_read(kafka, acl.name, there)]
    if missing:
        raise NotAllowed(*missing)


def _unseen(acls: Iterable[Acl], admin: Admin) -> list[Acl]:
    """The ACLs for topics with a prefix, where Kafka shows us no topic with that prefix."""
    prefixed = [acl for acl in acls if acl.resource == TOPIC and acl.prefixed]
    seen = admin.topics() if prefixed else {}
    return [acl for acl in prefixed if not any(name.startswith(acl.name) for name in seen)]


def _missing(acls: Iterable[Acl], allowed: dict[str, frozenset[str] | None]) -> Iterator[str]:
    for acl in acls:
        operations = allowed.get(acl.name)
        if operations is None:
            continue
        # The topic exists, so nobody has to make it.
        needed = [operation for operation in acl.operations if operation not in operations | {"Create"}]
        if needed:
            yield str(Acl(acl.resource, acl.name, tuple(needed), acl.why))
