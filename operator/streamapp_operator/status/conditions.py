# SPDX-License-Identifier: Apache-2.0
"""The conditions: seven that are always there, and two more for tools that read statuses of any kind.

Their reasons are words that people and alarms may rely on: they are listed in REASONS, and a test compares the
documentation with that list."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from streamapp.plain import plain
from streamapp_operator.scaling import autoscaler as autoscale
from streamapp_operator.status.facts import LEADS_NOWHERE, Facts
from streamapp_operator.status.verdicts import LONGEST_MESSAGE, verdicts_of
from streamapp_operator.times import stamp

Condition = dict[str, Any]

REASONS: dict[str, tuple[str, ...]] = {
    "Ready": (
        "Processing",
        "TopologyInvalid",
        "Suspended",
        "SecretUnusable",
        "DriverPending",
        "DriverStarting",
        "DriverStopping",
        "DriverFailed",
        "DriverSilent",
        "Restoring",
        "QueryRestarting",
        "Stopped",
        "Completed",
        "Scheduled",
        "NoExecutors",
        "ScaledToZero",
        "Stalled",
        "Deleting",
        "RestartsUsedUp",
        "Updating",
        "Proving",
        "UpdateRefused",
        "UpdatePaused",
        "RolledBack",
        "Refused",
    ),
    "Progressing": ("Settled", "Applying", "Starting", "Restoring", "Scaling", "Proving", "Stopping", "Deleting"),
    "Degraded": (
        "AsExpected",
        "DriverPending",
        "StateLost",
        "DriverFailed",
        "DriverSilent",
        "QueryRestarting",
        "KafkaTrouble",
        "ExecutorsMissing",
        "Stalled",
        "SecretUnusable",
        "Refused",
        "RestartsUsedUp",
        "RolledBack",
    ),
    "TopologyValid": ("Valid", LEADS_NOWHERE, "Invalid", "NeedsStateMigration", "Forbidden"),
    "StateRestored": ("Restored", "NoState", "Restoring", "DriverNotRunning"),
    "ScalingActive": (
        "AutoscalingOff",
        "TopologyInvalid",
        "Suspended",
        "ReconciliationPaused",
        "RecommendOnly",
        *autoscale.REASONS,
    ),
    "Paused": ("Active", "Suspended", "ReconciliationPaused"),
    "Reconciling": ("Applying", "Starting", "Restoring", "Scaling", "Proving", "Stopping", "Deleting"),
    "Stalled": ("TopologyInvalid", "UpdateRefused", "RolledBack", "Refused", "RestartsUsedUp", "DriverFailed"),
}
ONLY_WHILE_TRUE = ("Reconciling", "Stalled")
"""Conditions that are there only while they are true, as kstatus has it."""


def conditions(facts: Facts, previous: Iterable[Mapping[str, Any]], now: datetime) -> list[Condition]:
    """All conditions that hold, each with the time of the last change of its status.

    Args:
        facts: of now.
        previous: the conditions so far.
        now: the time.
    """
    before = {condition["type"]: condition for condition in previous}
    found = []
    for kind, (status, reason, message) in verdicts_of(facts, before.get("Progressing"), now).items():
        old = before.get(kind)
        since = old["lastTransitionTime"] if old is not None and old["status"] == status else stamp(now)
        found.append(
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": plain(message)[:LONGEST_MESSAGE],
                "observedGeneration": facts.generation,
                "lastTransitionTime": since,
            }
        )
    return found
