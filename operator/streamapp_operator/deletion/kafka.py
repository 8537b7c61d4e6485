# SPDX-License-Identifier: Apache-2.0
"""Deletes what a deleted app has on Kafka: internal topics, and the consumer group that showed its position.

    1  the metadata topic is read   it says who owns the applicationId, and which topics (by id) and group are the app's
    2  the topics but the metadata  a crash here: the metadata topic still says whose the rest is, which goes next time
    3  the consumer group
    4  the metadata topic

A topic that is not this app's by the metadata topic is left alone, and named: an app that never ran deletes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, field

from streamapp.errors import StreamAppError
from streamapp.kafka.admin import Admin
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.group import GroupPosition
from streamapp.kafka.ownership import Ownership, read_ownership
from streamapp_operator.backoff import Backoff
from streamapp_operator.manifest.addresses import RefusedAddress
from streamapp_operator.manifest.kafka_login import config_of, open_secrets
from streamapp_operator.observe.remains import Remains
from streamapp_operator.settings import Settings

RETRY_SECONDS, LONGEST_RETRY_SECONDS = 20.0, 60.0
"""Seconds of the first and the longest pause for a Kafka that has not answered. A user who deletes an app waits for
it."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one try."""

    deleted: tuple[str, ...] = ()
    """Topics that were deleted."""
    left: tuple[str, ...] = ()
    """Topics that should have gone."""
    why: str = ""
    """Why they have not gone; or the topics that were not to be deleted, and why."""
    group: bool = False
    """Whether the consumer group was deleted."""


@dataclass
class Cleaner:
    backoff: Backoff[str] = field(default_factory=lambda: Backoff(RETRY_SECONDS, LONGEST_RETRY_SECONDS))
    """By address of Kafka."""
    settings: Settings = field(default_factory=Settings)
    last: dict[str, Outcome] = field(default_factory=dict)
    """By owner: the outcome of the last try, if something is left."""

    def clean(self, remains: Remains, may_write: Callable[[], object] = lambda: None) -> Outcome:
        """Deletes what can be deleted now, in some 40 seconds at most. The rest may be tried again.

        Args:
            remains: the topics and the group that are to go.
            may_write: called before anything is deleted; may raise.
        """
        address = remains.kafka.bootstrap_servers or ""
        if why := self.backoff.reason(address):
            return Outcome(left=remains.topics, why=why)
        try:
            keys = open_secrets(remains.kafka, remains.secrets, remains.namespace)
            kafka = config_of(remains.kafka, keys, self.settings)
            admin = Admin(kafka)
        except RefusedAddress as error:  # for good: the deletion need not wait for it
            return Outcome(why=f"not deleted: {', '.join(remains.topics)} ({error})")
        except StreamAppError as error:  # which says nothing about Kafka
            return Outcome(left=remains.topics, why=str(error))
        try:
            there = admin.topics().keys()
        except StreamAppError as error:
            return Outcome(left=remains.topics, why=self.backoff.failed(address, str(error)))
        self.backoff.answered(address)
        named = [topic for topic in remains.topics if topic in there]
        try:
            if remains.metadata_topic not in there:
                return Outcome(why=_unproven(named, f"there is no topic '{remains.metadata_topic}'"))
            ownership = read_ownership(kafka, remains.metadata_topic, remains.application_id)
            return _clean(admin, kafka, remains, ownership, named, may_write)
        except StreamAppError as error:
            return Outcome(left=tuple(named), why=str(error))


def _clean(
    admin: Admin,
    kafka: KafkaConfig,
    remains: Remains,
    ownership: Ownership,
    named: list[str],
    may_write: Callable[[], object],
) -> Outcome:
    app, metadata = remains.application_id, remains.metadata_topic
    if ownership.owner != remains.owner:
        if ownership.owner is None:
            return Outcome(why=_unproven(named, f"topic '{metadata}' does not say whose applicationId '{app}' is"))
        return Outcome(why=f"applicationId '{app}' belongs to '{ownership.owner}': nothing of it is deleted")
    ids = admin.topic_ids(sorted({*named, *ownership.topics}))
    ours = sorted(topic for topic, id in ids.items() if ownership.topics.get(topic) == id)
    last = [topic for topic in ours if topic == metadata]
    may_write()
    refused = admin.delete_each(topic for topic in ours if topic not in last)
    group = not refused and ownership.has_group(app)
    if group:
        with closing(GroupPosition(kafka, app)) as position:
            position.read((topic, 0) for topic in ours)
        may_write()
        admin.delete_group(app)
    if not refused:
        refused = admin.delete_each(last)
    left = tuple(topic for topic in ours if topic in refused or (refused and topic in last))
    reasons = sorted({str(error) for error in refused.values()})
    others = [topic for topic in named if topic not in ours]
    if unproven := _unproven(others, f"topic '{metadata}' records other topic ids, or none"):
        reasons.append(unproven)
    return Outcome(tuple(topic for topic in ours if topic not in left), left, "; ".join(reasons), group)


def _unproven(topics: Collection[str], why: str) -> str:
    """A sentence on topics that may be somebody else's; empty for none."""
    return f"not proven to be this app's, so not deleted: {', '.join(sorted(topics))} ({why})" if topics else ""
