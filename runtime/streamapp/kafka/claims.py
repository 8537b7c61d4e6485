# SPDX-License-Identifier: Apache-2.0
"""An app's claim to its internal topics and its consumer group, made at each start before anything is read or written.

    1  look      ids are compared with those on record: a topic that was deleted or made anew is refused
    2  intent    names of topics that are not on record are noted         a crash here: the next start looks again
    3  judge     a topic that exists must be proven ours; nobody else may have it on record
    4  make      missing topics are made                                  a crash here: they are empty and may be taken
    5  ids       ids are noted; only then queries start and write

If two apps claim one name at the same time, each notes its intent before it looks at the other's. So one of them, or
both, see the other and withdraw.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from streamapp import failpoint
from streamapp.errors import InputError, RunError, StateLost
from streamapp.internal_topics import changelog_topic, metadata_topic, possible_owners
from streamapp.kafka.admin import CREATE_SECONDS, Admin, TopicSpec
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.ownership import GROUP, TOPIC, Ownership, read_ownership
from streamapp.kafka.topics import topics_of
from streamapp.plan import Plan

_WAYS_OUT = "give the node another `store`, which begins empty, or choose another applicationId"


class NotOurs(InputError):
    """An internal topic belongs to somebody else, or its owner is unknown."""


class TopicLost(StateLost):
    """An internal topic was deleted or made anew: its records are lost."""


class Book(Protocol):
    """The records `own/…` of our own metadata topic, which only its driver may write."""

    def own(self) -> dict[str, str]:
        """All records."""
        ...

    def note(self, changes: Mapping[str, str | None]) -> None:
        """Writes all changes or none; None deletes."""
        ...

    def group_is_free(self) -> bool:
        """Whether no consumer group of the applicationId's name has members or offsets."""
        ...


@dataclass(frozen=True)
class Claimed:
    """The topics and the group that are ours."""

    topics: Mapping[str, str] = field(default_factory=dict)
    """Our internal topics with their ids."""
    group: bool = True
    """Whether the consumer group of the applicationId's name is ours."""
    made: tuple[TopicSpec, ...] = ()
    """The topics that were missing and have been made."""


def claim(kafka: KafkaConfig, admin: Admin, plan: Plan, book: Book, before: Collection[str], ran: bool) -> Claimed:
    """Claims what the plan needs, and makes the topics that are missing.

    Args:
        kafka: where the topics are.
        admin: a connection there.
        plan: the app's plan. Its metadata topic must be open and ours.
        book: the records of that topic.
        before: internal topics that the app has written in earlier runs, by its metadata: they are ours even if they
            were made by a version that kept no record.
        ran: whether the app has committed an epoch.

    Raises:
        NotOurs: when a topic belongs to somebody else, or its owner is unknown.
        TopicLost: when one is gone, or was made anew.
    """
    specs = {spec.name: spec for spec in topics_of(plan) if spec.internal}
    metadata = metadata_topic(plan.application_id)
    there, own = admin.topic_ids(list(specs)), book.own()
    ids = {name: own.get(TOPIC + name, "") for name in specs}
    for name, spec in specs.items():
        require_kept(spec, ids[name], there.get(name), before)
    new = [name for name in specs if not ids[name] and name != metadata]
    intents = {TOPIC + name: "" for name in new if TOPIC + name not in own}
    known = {}
    if not ids[metadata]:  # its own records prove that it is ours
        ids |= _await_ids(admin, [metadata])
        known = {TOPIC + metadata: ids[metadata]}
    if intents or known:
        book.note({**known, **intents})
    made: list[TopicSpec] = []
    if new:
        failpoint.hit("driver.topics-claimed")
        try:
            _require_free(kafka, admin, plan, [specs[name] for name in new], there, before)
        except InputError:
            book.note(dict.fromkeys(intents))
            raise
        made = [specs[name] for name in new if name not in there]
        admin.create(made)
        failpoint.hit("driver.own-topics-made")
        ids |= _await_ids(admin, new)
        book.note({TOPIC + name: ids[name] for name in new})
    group = GROUP + plan.application_id
    ours = group in own
    if not ours and (ran or book.group_is_free()):
        book.note({group: ""})
        ours = True
    return Claimed(ids, ours, tuple(made))


def require_kept(spec: TopicSpec, recorded: str, found: str | None, before: Collection[str] = ()) -> None:
    """Checks that an internal topic is still the one on record.

    Args:
        spec: the internal topic.
        recorded: its id on record; empty for none.
        found: its id now; None: it does not exist.
        before: topics that are ours without a record.

    Raises:
        TopicLost: when it was deleted, or deleted and made anew.
    """
    if found is None and (recorded or spec.name in before):
        raise TopicLost(f"{_called(spec)} does not exist any more: its content is lost; {_WAYS_OUT}")
    if found is not None and recorded and found != recorded:
        raise TopicLost(
            f"{_called(spec)} was deleted and made anew (its id was {recorded} and is {found}): its content is "
            f"lost; {_WAYS_OUT}"
        )


def _await_ids(admin: Admin, names: list[str]) -> dict[str, str]:
    """The ids of new topics. It waits for them, as not every broker knows of a new topic at once."""
    deadline = time.monotonic() + CREATE_SECONDS
    while missing := set(names) - (found := admin.topic_ids(names)).keys():
        if time.monotonic() > deadline:
            raise RunError(f"no broker says the id of topic '{min(missing)}', {CREATE_SECONDS:.0f} s after it was made")
        time.sleep(0.05)
    return found


def _require_free(
    kafka: KafkaConfig,
    admin: Admin,
    plan: Plan,
    specs: Iterable[TopicSpec],
    there: Mapping[str, str],
    before: Collection[str],
) -> None:
    others = _Others(kafka, admin, plan.application_id)
    for spec in specs:
        whose = others.claimant(spec.name, by_use=spec.name not in before)
        if whose is not None:
            raise NotOurs(f"{_called(spec)} belongs to {whose}, whose topics may have the same names; {_WAYS_OUT}")
        if spec.name in there and spec.name not in before and any(admin.end_offsets(spec.name, False).values()):
            raise NotOurs(
                f"{_called(spec)} exists, has been written to, and is not on record as this app's (topic "
                f"'{metadata_topic(plan.application_id)}'); {_WAYS_OUT}, or delete the topic if nobody needs it"
            )


class _Others:
    """Applications whose topics may have the names of ours: one id is the beginning of the other, up to a hyphen."""

    def __init__(self, kafka: KafkaConfig, admin: Admin, application_id: str) -> None:
        self._kafka, self._application_id = kafka, application_id
        self._topics = admin.topics().keys()
        self._read: dict[str, Ownership] = {}

    def claimant(self, topic: str, by_use: bool) -> str | None:
        """The application that has the topic on record; with `by_use` also one that has committed epochs of a store
        whose changelog the topic is. None: no application that we may see."""
        for app in possible_owners(topic):
            if app == self._application_id or metadata_topic(app) not in self._topics:
                continue
            found = self._ownership(app)
            used = by_use and any(topic == changelog_topic(app, part) for part in found.committed)
            if found.owner is not None and (topic in found.topics or used):
                return f"application '{app}' of '{found.owner}'"
        return None

    def _ownership(self, app: str) -> Ownership:
        if app not in self._read:
            self._read[app] = read_ownership(self._kafka, metadata_topic(app), self._application_id)
        return self._read[app]


def _called(spec: TopicSpec) -> str:
    return f"internal topic '{spec.name}' of '{spec.node}'"
