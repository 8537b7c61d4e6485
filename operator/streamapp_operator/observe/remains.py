# SPDX-License-Identifier: Apache-2.0
"""The work that is left when an app is deleted. Pure, from the observation.

With `deletionPolicy: Delete` the app carries a finalizer of ours: its drivers end, then its internal topics and its
consumer group go, then the resource may go. Nothing of that may hold the resource for long: after DEADLINE_SECONDS, and
the end of a try that has begun before, it goes in any case, and an event names the topics that are left on Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from streamapp.errors import InputError, ManifestError
from streamapp.internal_topics import METADATA
from streamapp.owner import resource_owner
from streamapp.plan import KafkaSettings, Plan
from streamapp_operator.driver.pods import has_ended
from streamapp_operator.manifest.app import read_app
from streamapp_operator.manifest.kafka_login import Secrets
from streamapp_operator.names import base_name, config_name
from streamapp_operator.observe.observation import Observation
from streamapp_operator.render import STARTERS
from streamapp_operator.render.config import PLAN
from streamapp_operator.render.meta import Object

FINALIZER = "streamapp.dev/internal-topics"
DEADLINE_SECONDS = 60.0
"""Seconds after the deletion. A driver takes up to 30 seconds to end, Kafka a few to delete topics."""


@dataclass(frozen=True)
class Remains:
    """The topics and the group that an app has on Kafka."""

    application_id: str
    owner: str
    """The owner of the applicationId, if it belongs to this app."""
    kafka: KafkaSettings
    metadata_topic: str
    """The topic that names the owner, so it goes last."""
    other_topics: tuple[str, ...]
    secrets: Secrets = field(default_factory=dict, repr=False)
    """The Secrets that `kafka` names."""

    @property
    def namespace(self) -> str:
        return self.owner.partition("/")[0]

    @property
    def topics(self) -> tuple[str, ...]:
        return (*self.other_topics, self.metadata_topic)


def is_deleted(body: Object) -> bool:
    return "deletionTimestamp" in body["metadata"]


def has_finalizer(body: Object) -> bool:
    """Whether the resource waits for us before it goes."""
    return FINALIZER in body["metadata"].get("finalizers", ())


def wants_finalizer(body: Object) -> bool:
    return bool(body["spec"].get("deletionPolicy") == "Delete")


def is_late(body: Object, now: datetime) -> bool:
    """Whether the deletion has taken as long as it may."""
    since = datetime.fromisoformat(body["metadata"]["deletionTimestamp"])
    return (now - since).total_seconds() > DEADLINE_SECONDS


def driver_makers(seen: Observation) -> tuple[Object, ...]:
    """Objects that must go first, so that no driver comes after the last one."""
    there = (*seen.children.values(), *seen.jobs)
    found = {item["metadata"]["uid"]: item for item in there if item["kind"] in STARTERS}
    return tuple(item for item in found.values() if not is_deleted(item))


def running(seen: Observation) -> tuple[str, ...]:
    """Names of the pods that may still write to the topics."""
    return tuple(pod["metadata"]["name"] for pod in (*seen.drivers, *seen.executors) if not has_ended(pod))


def remains_of(seen: Observation) -> Remains | None:
    """The remains by the plan that drivers were given last, and by the one that the manifest asks for, if it is of the
    same application on the same Kafka; None: there is neither plan."""
    plans = [plan for plan in (given_plan(seen.body, seen.children), _asked_for(seen.body)) if plan is not None]
    if not plans:
        return None
    plans = [plan for plan in plans if (plan.application_id, plan.kafka) == (plans[0].application_id, plans[0].kafka)]
    metadata = seen.body["metadata"]
    by_role = {topic.name: topic.role for plan in plans for topic in plan.topics}
    return Remains(
        application_id=plans[0].application_id,
        owner=resource_owner(metadata["namespace"], metadata["name"], metadata["uid"]),
        kafka=plans[0].kafka,
        metadata_topic=next(name for name, role in by_role.items() if role == METADATA),
        other_topics=tuple(sorted(name for name, role in by_role.items() if role != METADATA)),
        secrets=seen.secrets,
    )


def _asked_for(body: Mapping[str, Any]) -> Plan | None:
    try:
        return read_app(body).plan
    except ManifestError:
        return None


def given_plan(body: Mapping[str, Any], children: Mapping[tuple[str, str], Object]) -> Plan | None:
    """The plan that drivers were given last."""
    config = children.get(("ConfigMap", config_name(base_name(body["metadata"]["name"]))), {})
    try:
        return Plan.from_json((config.get("data") or {}).get(PLAN, ""))
    except InputError:
        return None
