# SPDX-License-Identifier: Apache-2.0
"""The metadata topic as the driver's Python side uses it: the app's owner, its own topics, its earlier runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from streamapp.describe.words import of_stores
from streamapp.kafka.access import require_access
from streamapp.kafka.admin import Admin
from streamapp.kafka.claims import Claimed, claim
from streamapp.kafka.config import KafkaConfig
from streamapp.kafka.topics import topics_of, tune
from streamapp.plain import plain
from streamapp.plan import Plan
from streamapp.spark.failure import diagnose
from streamapp.spark.jvm import java_class
from streamapp.spark.predecessors import (
    Shapes,
    begun_late,
    hops_to_note,
    inputs_to_json,
    inputs_to_note,
    numberings_of,
    read_known,
    require_fed,
    require_succession,
    shapes_after,
    shapes_to_json,
    shapes_to_note,
    written_before,
)
from streamapp.succession import NO_EPOCH


class Metadata:
    """An app's metadata topic. It must exist."""

    def __init__(self, plan: Plan, kafka: KafkaConfig) -> None:
        self._plan, self._kafka = plan, kafka
        self._bridge: JavaObject = java_class("DriverBridge")
        self._unproven: Mapping[str, Shapes] = {}
        self.claimed = Claimed()
        """The internal topics and the group that belong to the app."""
        self.kept: frozenset[str] = frozenset()
        """The sub-topologies whose stores hold state from earlier runs."""
        self.begun_late: Mapping[str, int] = {}
        """The stores that were added to a sub-topology that had run, each with the last epoch planned by then."""

    def open(self, settings: Mapping[str, str], owner: str, adopted: str | None = None) -> None:
        """Fences an older driver, and makes sure that the plan can go on from what earlier runs have left.

        Args:
            settings: the settings of the run.
            owner: the app's owner: `namespace/name/uid`, or `local/name`.
            adopted: a former owner. If the applicationId still belongs to it, it becomes `owner`'s.

        Raises:
            StreamAppError: when the plan cannot go on, or something that it needs is not the app's.
        """
        with _diagnosed(self._plan.application_id):
            self._open(settings, owner, adopted)

    def _open(self, settings: Mapping[str, str], owner: str, adopted: str | None) -> None:
        plan = self._plan
        self._bridge.begin(dict(settings), owner, adopted)
        known, words = read_known(self._bridge.known(plan.application_id)), of_stores(plan)
        require_succession(plan, known, words)
        require_fed(plan, known)
        admin = Admin(self._kafka)
        self.kept = frozenset(name for name, old in known.items() if old.stateful and old.committed != NO_EPOCH)
        ran = any(old.committed != NO_EPOCH for old in known.values())
        book = _Book(self._bridge, plan.application_id)
        self.claimed = claim(self._kafka, admin, plan, book, written_before(plan, known), ran)
        if self.claimed.made:
            require_access(self._kafka, admin, plan, patterns=False)
        for line in tune(admin, [spec for spec in topics_of(plan) if spec.internal]):
            print(f"note: {plain(line)}", file=sys.stderr, flush=True)
        for name, hops in hops_to_note(plan, known):
            self._bridge.note(plan.application_id, name, "hops", hops.to_json())
        after = shapes_after(plan, known, words)
        self.begun_late = begun_late(after)
        certain, self._unproven = shapes_to_note(after, known)
        for name in certain:
            if name in known and known[name].committed == NO_EPOCH:
                # A version that never committed an epoch there has left the shape of its state, and no state.
                self._bridge.forgetState(plan.application_id, name)
        self._note(certain)
        # After the shapes: a source on record whose store is not on record yet would pass for an old store's source.
        self.numberings = numberings_of(plan, known)
        for name, inputs in inputs_to_note(plan, known, self.numberings):
            self._bridge.note(plan.application_id, name, "sources", inputs_to_json(inputs))

    def flush(self) -> None:
        """Makes the record of ended epochs durable. The driver itself writes it only with the next epoch.

        Raises:
            StreamAppError: when Kafka does not take it, or another driver has taken over.
        """
        with _diagnosed(self._plan.application_id):
            self._bridge.flush(self._plan.application_id)

    def note_committed(self, subtopologies: Collection[str]) -> None:
        """Notes the shapes of the stores of sub-topologies that have committed an epoch.

        Args:
            subtopologies: those that have committed an epoch in this run. The contents of their stores are certain now,
                also where the version that has filled them kept no record of them.

        Raises:
            StreamAppError: when Kafka does not take it, or another driver has taken over.
        """
        if proven := {name: shape for name, shape in self._unproven.items() if name in subtopologies}:
            with _diagnosed(self._plan.application_id):
                self._note(proven)
            self._unproven = {name: shape for name, shape in self._unproven.items() if name not in proven}

    def _note(self, shapes: Mapping[str, Shapes]) -> None:
        for name, of_stores_of_it in shapes.items():
            self._bridge.note(self._plan.application_id, name, "shape", shapes_to_json(of_stores_of_it))


class _Book:
    """The records of the metadata topic about the app's own topics and group."""

    def __init__(self, bridge: JavaObject, application_id: str) -> None:
        self._bridge, self._application_id = bridge, application_id

    def own(self) -> dict[str, str]:
        return dict(json.loads(self._bridge.own(self._application_id)))

    def note(self, changes: Mapping[str, str | None]) -> None:
        self._bridge.noteOwn(self._application_id, dict(changes))

    def group_is_free(self) -> bool:
        return bool(self._bridge.groupIsFree(self._application_id))


@contextmanager
def _diagnosed(application_id: str) -> Iterator[None]:
    """Turns an error of the Java process into our own, which says what is wrong in a line. No answer at all stays as it
    is.

    Raises:
        StreamAppError: when Kafka refuses something, or another driver has taken over.
    """
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        raise diagnose("metadata", str(error), application_id).error from None
