# SPDX-License-Identifier: Apache-2.0
"""Takes away what a deleted app has on Kafka: internal topics, and the consumer group that showed its position.

    1  the owner is looked up       an applicationId of somebody else's is left alone
    2  the topics but the metadata  a crash here: the metadata topic still says whose the rest is, which goes next time
    3  the consumer group
    4  the metadata topic
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field

from streamapp.errors import StreamAppError
from streamapp.kafka.admin import Admin
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.group import GroupPosition
from streamapp.kafka.owner import owner_of
from streamapp_operator.deletion import Remains
from streamapp_operator.login import config_of, open_secrets
from streamapp_operator.silence import Silence

RETRY_SECONDS = 20.0
"""A Kafka that has not answered is left alone for so long."""


@dataclass(frozen=True)
class Outcome:
    """Of one try."""

    deleted: tuple[str, ...] = ()
    """Topics."""
    left: tuple[str, ...] = ()
    """Topics that should have gone."""
    why: str = ""
    """Why they have not; or why there was nothing to delete."""


@dataclass
class Cleaner:
    silence: Silence[str] = field(default_factory=lambda: Silence(RETRY_SECONDS))
    """By address."""
    last: dict[str, Outcome] = field(default_factory=dict)
    """By owner: what came of the last try, if something is left."""

    def clean(self, remains: Remains, may_write: Callable[[], object] = lambda: None) -> Outcome:
        """Does what can be done now, in some 40 seconds at most. What is left may be tried again.

        Args:
            remains: what is to go.
            may_write: asked before anything is deleted; may raise.
        """
        address = remains.kafka.bootstrap_servers or ""
        if why := self.silence.reason(address):
            return Outcome(left=remains.topics, why=why)
        try:
            kafka = config_of(remains.kafka, open_secrets(remains.kafka, remains.secrets, remains.namespace))
            admin = Admin(kafka)
        except StreamAppError as error:  # which says nothing about Kafka
            return Outcome(left=remains.topics, why=str(error))
        try:
            there = admin.topics().keys()
        except StreamAppError as error:
            return Outcome(left=remains.topics, why=self.silence.note(address, str(error)))
        ours = [topic for topic in remains.topics if topic in there]
        try:
            return _clean(admin, kafka, remains, ours, may_write)
        except StreamAppError as error:
            return Outcome(left=tuple(ours), why=str(error))


def _clean(
    admin: Admin, kafka: KafkaConfig, remains: Remains, ours: list[str], may_write: Callable[[], object]
) -> Outcome:
    last = [topic for topic in ours if topic == remains.metadata_topic]
    if last:
        owner = owner_of(kafka, remains.application_id, remains.metadata_topic)
        if owner not in (None, remains.owner):
            app = remains.application_id
            return Outcome(why=f"applicationId '{app}' belongs to '{owner}': nothing of it is deleted")
    may_write()
    refused = admin.delete_each(topic for topic in ours if topic not in last)
    if not refused:
        with closing(GroupPosition(kafka, remains.application_id)) as group:
            group.read((topic, 0) for topic in ours)
        may_write()
        admin.delete_group(remains.application_id)
        refused = admin.delete_each(last)
    left = tuple(topic for topic in ours if topic in refused or (refused and topic in last))
    return Outcome(
        deleted=tuple(topic for topic in ours if topic not in left),
        left=left,
        why="; ".join(sorted({str(error) for error in refused.values()})),
    )
