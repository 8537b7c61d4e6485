# SPDX-License-Identifier: Apache-2.0
"""How far an app is behind, read from Kafka itself: also while its driver is down."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamapp.errors import ManifestError, RunError, StreamAppError
from streamapp.internal_topics import REPARTITION
from streamapp.kafka.admin import Admin
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.group import GroupPosition
from streamapp.patterns import matches
from streamapp.plan import Plan
from streamapp_operator.backoff import Backoff
from streamapp_operator.manifest.app import read_app
from streamapp_operator.manifest.kafka_login import Secrets, config_of, open_secrets
from streamapp_operator.observe.observation import Position
from streamapp_operator.settings import Settings

_Key = tuple[str, tuple[tuple[str, str], ...]]
"""Address and properties of a connection."""
RETRY_SECONDS, LONGEST_RETRY_SECONDS = 30.0, 600.0
"""Seconds of the first and the longest pause for a Kafka that has not answered."""


@dataclass
class Lags:
    """Reads positions. It keeps connections: one for each address and credentials, and one for each app's group."""

    backoff: Backoff[_Key] = field(default_factory=lambda: Backoff(RETRY_SECONDS, LONGEST_RETRY_SECONDS))
    settings: Settings = field(default_factory=Settings)
    _admins: dict[_Key, Admin] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _users: dict[tuple[str, str], _User] = field(default_factory=dict, repr=False)
    """By namespace and name of an app."""

    def of(self, body: Mapping[str, Any], secrets: Secrets) -> tuple[Position | None, str]:
        """The position of a resource's app, or None and why there is none: nobody asks for it, or Kafka is silent.

        Args:
            body: the resource.
            secrets: those that its `kafka` names.
        """
        if not body["spec"].get("autoscaling") or body["spec"].get("suspend"):
            return None, ""
        try:
            app = read_app(body)
            plan = app.plan
            config = config_of(plan.kafka, open_secrets(plan.kafka, secrets, app.namespace), self.settings)
            key = _key(config)
            if why := self.backoff.reason(key):
                self.forget(app.namespace, app.name)
                return None, why
            user = self._use((app.namespace, app.name), config, plan.application_id)
        except ManifestError:
            return None, "the manifest cannot be run"
        except StreamAppError as error:
            return None, str(error)
        try:
            position = position_of(self._admins[user.key], user.group, plan)
        except _Missing as error:
            return None, str(error)
        except StreamAppError as error:
            # A client that stays goes on trying by itself, several times a second: where it is refused, that locks
            # accounts.
            self.forget(app.namespace, app.name)
            return None, self.backoff.failed(key, str(error))
        self.backoff.answered(key)
        return position, ""

    def _use(self, app: tuple[str, str], config: KafkaConfig, group: str) -> _User:
        """The connections for the app. Its earlier connection to brokers goes, unless another app uses it.

        Raises:
            RunError: when the settings cannot be used.
        """
        key = _key(config)
        with self._lock:
            before = self._users.get(app)
            if before is not None and (before.key, before.name) == (key, group):
                return before
            # Both are there or none: a connection without a user would never go.
            admin, user = self._admins.get(key) or Admin(config), _User(key, group, GroupPosition(config, group))
            self._admins[key], self._users[app] = admin, user
            if before is not None:
                self._drop(before)
        return user

    def forget(self, namespace: str, name: str) -> None:
        """Closes the connections of an app."""
        with self._lock:
            if before := self._users.pop((namespace, name), None):
                self._drop(before)

    def _drop(self, user: _User) -> None:
        user.group.close()
        if all(other.key != user.key for other in self._users.values()):
            self._admins.pop(user.key, None)


def _key(config: KafkaConfig) -> _Key:
    return config.bootstrap_servers, tuple(sorted(config.properties.items()))


@dataclass(frozen=True)
class _User:
    """The connections of an app."""

    key: _Key
    name: str
    """The name of its group."""
    group: GroupPosition


class _Missing(RunError):
    """A topic is not there. Kafka itself answers."""


def position_of(admin: Admin, group: GroupPosition, plan: Plan) -> Position:
    """
    Args:
        admin: a connection to the app's Kafka.
        group: the app's own.
        plan: of the app.

    Raises:
        RunError: when Kafka does not answer, or a topic is missing.
    """
    there = admin.topics()
    hops = [topic.name for topic in plan.topics if topic.role == REPARTITION and topic.name in there]
    found = [name for name in there if any(matches(pattern, name) for pattern in plan.source_patterns)]
    topics = sorted({*plan.source_topics, *found, *hops})
    if missing := [topic for topic in topics if topic not in there]:
        raise _Missing(f"topic {missing[0]!r} does not exist")
    partitions = [(topic, number) for topic in topics for number in range(there[topic].partitions)]
    ends, committed = admin.ends_of(partitions), group.read(partitions)
    # Where nothing is committed yet.
    open_ones = [partition for partition in partitions if partition not in committed]
    begins = ends if plan.start_from == "latest" else admin.starts_of(open_ones)
    return Position(
        produced=sum(ends.values()),
        consumed=sum(min(end, committed.get(place, begins.get(place, 0))) for place, end in ends.items()),
        partitions=sum(there[topic].partitions for topic in topics if topic not in hops),
        topics=frozenset(topics),
    )
