# SPDX-License-Identifier: Apache-2.0
"""Why a driver's pod cannot be made or started, or was ended, as the cluster's events say."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from streamapp_operator.driver.pods import PENDING, driver_state, newest
from streamapp_operator.driver.probes import failed_probe, may_have_failed_a_probe
from streamapp_operator.observe.observation import Observation
from streamapp_operator.render.meta import Object

ASK_SECONDS = 20.0
"""Seconds from the first look without a driver to the first list of its events, and between two lists: most drivers are
there sooner, and a list of events is not cheap."""


class Events(Protocol):
    """Where events are looked up."""

    def events(self, namespace: str, uid: str) -> Sequence[Object]:
        """Events about the object with that uid, the latest last."""


@dataclass(frozen=True)
class _Asked:
    uid: str
    """The uid of the object that it is about."""
    at: datetime
    trouble: str = ""
    ended: int = 0
    """How often the driver's container had ended by then."""


@dataclass
class PodEvents:
    """Asks for events, and remembers the answer for a while."""

    _asked: MutableMapping[tuple[str, str], _Asked] = field(default_factory=dict)
    """By namespace and name of an app."""

    def of(self, cluster: Events, seen: Observation, now: datetime) -> str:
        """Why the driver's pod cannot be made or started, or why its container was ended last; empty where the cluster
        does not say.

        The latest event counts: the object that makes a pod reports when it has made one in the end.
        """
        metadata = seen.body["metadata"]
        key = metadata["namespace"], metadata["name"]
        if seen.driver is not None and may_have_failed_a_probe(seen.driver):
            return self._why_it_ended(cluster, seen.driver, key, now)
        about = _awaited(seen)
        if about is None:
            self.forget(*key)
            return ""
        uid = about["metadata"]["uid"]
        asked = self._asked.get(key)
        if asked is None or asked.uid != uid:
            asked = _Asked(uid, now)
        elif self._is_due(asked, now):
            asked = _Asked(uid, now, _trouble_in(cluster.events(metadata["namespace"], uid)))
        self._asked[key] = asked
        return asked.trouble

    def _why_it_ended(self, cluster: Events, pod: Object, key: tuple[str, str], now: datetime) -> str:
        """Why the container ended. Events are listed once for each end, and again where the event was not there yet."""
        uid, state = pod["metadata"]["uid"], driver_state(pod)
        asked = self._asked.get(key)
        is_new = asked is None or (asked.uid, asked.ended) != (uid, state.ended)
        if asked is None or is_new or (not asked.trouble and not state.ready and self._is_due(asked, now)):
            trouble = failed_probe(pod, cluster.events(pod["metadata"]["namespace"], uid))
            self._asked[key] = asked = _Asked(uid, now, trouble, state.ended)
        return asked.trouble

    @staticmethod
    def _is_due(asked: _Asked, now: datetime) -> bool:
        return (now - asked.at).total_seconds() >= ASK_SECONDS

    def forget(self, namespace: str, name: str) -> None:
        """Forgets an app that does not exist any more, or whose driver is there."""
        self._asked.pop((namespace, name), None)


def _awaited(seen: Observation) -> Object | None:
    """The pod that does not start, or what should make one; None where a driver runs, or none is wanted."""
    if seen.driver is not None:
        return seen.driver if driver_state(seen.driver).state == PENDING else None
    makers = [item for (kind, _), item in seen.children.items() if kind == "StatefulSet" and item["spec"]["replicas"]]
    return newest([*makers, *(job for job in seen.jobs if not job.get("status", {}).get("conditions"))])


def _trouble_in(events: Sequence[Object]) -> str:
    if not events or events[-1].get("type") != "Warning":
        return ""
    return f"{events[-1].get('reason', '')}: {events[-1].get('message', '')}"
