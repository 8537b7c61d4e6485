# SPDX-License-Identifier: Apache-2.0
"""The records in which a driver writes down the topics of its app."""

from __future__ import annotations

from collections.abc import Mapping

from lib.broker import write
from streamapp.kafka.admin import Admin
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.ownership import GROUP, TOPIC
from streamapp.plan import Plan


class InMemory:
    """The records of a metadata topic that no other process reads."""

    def __init__(self, own: Mapping[str, str] | None = None, free: bool = True) -> None:
        self.records, self._free = dict(own or {}), free

    def own(self) -> dict[str, str]:
        return dict(self.records)

    def note(self, changes: Mapping[str, str | None]) -> None:
        for key, value in changes.items():
            if value is None:
                self.records.pop(key, None)
            else:
                self.records[key] = value

    def group_is_free(self) -> bool:
        return self._free


def record_ownership(kafka: KafkaConfig, plan: Plan, owner: str, others: Mapping[str, str] | None = None) -> None:
    """Writes the records as a driver of that owner does, for the internal topics that exist; `others` replaces ids."""
    ids = Admin(kafka).topic_ids([topic.name for topic in plan.topics])
    own = {TOPIC + name: id for name, id in ids.items()} | {GROUP + plan.application_id: ""} | dict(others or {})
    records = [("/some/file", "x"), ("owner", owner), *own.items(), ("/other/file", "y")]
    write(kafka, f"{plan.application_id}-metadata", *records)
