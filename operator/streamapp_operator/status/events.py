# SPDX-License-Identifier: Apache-2.0
"""Events: the history of an app that people see in `kubectl describe`. Their reasons are stable words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from streamapp_operator.render.meta import MANAGER, Object
from streamapp_operator.status.facts import LEADS_NOWHERE
from streamapp_operator.times import stamp
from streamapp_operator.versions.rollout import ROLLED_BACK

NORMAL, WARNING = "Normal", "Warning"
_USED_UP = "RestartsUsedUp"
_WITHOUT_PHASE = (
    "Refused",
    "SecretUnusable",
    "DriverPending",
    "StateLost",
    "DriverSilent",
    "KafkaTrouble",
    "ExecutorsMissing",
    "Stalled",
    _USED_UP,
)
"""Reasons of Degraded that no phase goes with."""
_PAUSED = "ReconciliationPaused"
REASONS = (
    "Applying",
    "Scaling",
    "TopologyInvalid",
    "TopologyValid",
    LEADS_NOWHERE,
    "UpdateRefused",
    "RolledBack",
    "Healthy",
    *_WITHOUT_PHASE,
    "Recovered",
    "MetricsMissing",
    "MetricsKnown",
    _PAUSED,
    "ReconciliationResumed",
    "Pending",
    "Starting",
    "Restoring",
    "Running",
    "Scheduled",
    "Completed",
    "Restarting",
    "Suspending",
    "Suspended",
    "Stopped",
    "Failed",
    "Invalid",
    "Deleting",
    "Deleted",
    "TopicsLeft",
)
_BAD_PHASES = ("Failed", "Restarting", "Invalid")
_STOPS = {"Completed", "Failed", "Scheduled", "Stopped", "Suspended", "Suspending"}
"""Phases in which no executor is wanted, whatever the manifest asks for."""
_LONGEST = 1000


@dataclass(frozen=True)
class Event:
    kind: str
    reason: str
    message: str


def events_between(previous: Mapping[str, Any], status: Mapping[str, Any]) -> Iterator[Event]:
    """The events between two statuses."""
    if status["target"] != previous.get("target", {}) and status["target"].get("changes"):
        yield Event(NORMAL, "Applying", "; ".join(status["target"]["changes"]))
    before, after = _conditions(previous), _conditions(status)
    valid = after["TopologyValid"]
    if valid["status"] == "False" and valid["message"] != before.get("TopologyValid", {}).get("message"):
        yield Event(WARNING, "TopologyInvalid" if valid["reason"] == "Invalid" else "UpdateRefused", valid["message"])
    elif valid["reason"] == LEADS_NOWHERE and valid["message"] != before.get("TopologyValid", {}).get("message"):
        yield Event(WARNING, LEADS_NOWHERE, valid["message"])
    elif valid["status"] == "True" and before.get("TopologyValid", {}).get("status") == "False":
        yield Event(NORMAL, "TopologyValid", valid["message"])
    degraded = after["Degraded"]
    if (plan := status.get("plan", {})).get("outcome") == ROLLED_BACK != previous.get("plan", {}).get("outcome"):
        yield Event(WARNING, "RolledBack", plan["why"])
    if (healthy := status.get("healthyVersion")) and healthy != previous.get("healthyVersion"):
        yield Event(NORMAL, "Healthy", f"{healthy} commits epochs and keeps up")
    amiss, was_amiss = degraded["reason"], before.get("Degraded", {}).get("reason")
    paused, was_paused = after["Paused"], before.get("Paused", {}).get("reason") == _PAUSED
    if amiss in _WITHOUT_PHASE and amiss != was_amiss:
        yield Event(WARNING, amiss, degraded["message"])
    elif (
        was_amiss in _WITHOUT_PHASE
        and was_amiss != _USED_UP  # somebody has asked for another attempt, whose end is not known yet
        and degraded["status"] == "False"
        and paused["reason"] != "Suspended"
    ):
        yield Event(NORMAL, "Recovered", f"{degraded['message']}; it was {was_amiss}")
    if (paused["reason"] == _PAUSED) is not was_paused:
        yield Event(NORMAL, "ReconciliationResumed" if was_paused else _PAUSED, paused["message"])
    yield from _known_or_not(before.get("ScalingActive", {}), after["ScalingActive"])
    scaling, replicas = after["ScalingActive"], status["desiredReplicas"]
    had = previous.get("desiredReplicas", replicas)
    if replicas != had and not {status["phase"], previous.get("phase")} & _STOPS:  # which their phases tell
        why = scaling["message"] if scaling["status"] == "True" else f"spec.replicas is {replicas}"
        yield Event(NORMAL, "Scaling", f"{had} → {replicas} replicas: {why}")
    phase = status["phase"]
    if phase != previous.get("phase"):
        bad = phase in _BAD_PHASES
        message = degraded["message"] if bad and degraded["status"] == "True" else after["Ready"]["message"]
        yield Event(WARNING if bad else NORMAL, phase, message)


_DOES_NOT_SCALE = ("AutoscalingOff", "TopologyInvalid", "Suspended", _PAUSED)


def _known_or_not(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Event]:
    """An event when the lag by which the app scales becomes known, or unknown."""
    if after["status"] == before.get("status"):
        return
    if after["status"] == "Unknown":
        yield Event(WARNING, "MetricsMissing", after["message"])
    elif before.get("status") == "Unknown" and after["reason"] not in _DOES_NOT_SCALE:
        yield Event(NORMAL, "MetricsKnown", after["message"])


def to_object(event: Event, about: Object, now: datetime) -> Object:
    """The event as the API server takes it."""
    metadata = about["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": f"{metadata['name'][:200]}-", "namespace": metadata["namespace"]},
        "involvedObject": {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "uid": metadata["uid"],
        },
        "type": event.kind,
        "reason": event.reason,
        "message": event.message if len(event.message) <= _LONGEST else event.message[: _LONGEST - 1] + "…",
        "source": {"component": MANAGER},
        "reportingComponent": MANAGER,
        "firstTimestamp": stamp(now),
        "lastTimestamp": stamp(now),
        "count": 1,
    }


def _conditions(status: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {condition["type"]: condition for condition in status.get("conditions", ())}
