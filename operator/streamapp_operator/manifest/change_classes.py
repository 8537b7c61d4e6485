# SPDX-License-Identifier: Apache-2.0
"""The class of a change of each field of a manifest. This is the one table: plans, updates and the manual go by it."""

from __future__ import annotations

from collections.abc import Iterable

LIVE = "Live"
"""Taken up while the app runs; nothing is started anew."""
ROLL_EXECUTORS = "RollExecutors"
"""Executors are replaced one after the other; the driver and its queries run on."""
RESTART_QUERY = "RestartQuery"
"""The epoch under way ends, and a new driver goes on behind it."""
NEEDS_STATE_MIGRATION = "NeedsStateMigration"
"""The state that exists would mean something else: not done."""
FORBIDDEN = "Forbidden"
"""Not done in the life of an app."""

CLASSES = (LIVE, ROLL_EXECUTORS, RESTART_QUERY, NEEDS_STATE_MIGRATION, FORBIDDEN)
"""From what costs nothing to what is not done."""

FIELDS: dict[str, str] = {
    "applicationId": FORBIDDEN,
    "autoscaling": LIVE,
    "closeWindows": RESTART_QUERY,
    "code": RESTART_QUERY,
    "deletionPolicy": LIVE,
    "driver": RESTART_QUERY,
    "epochInterval": RESTART_QUERY,
    "executor.podTemplate": ROLL_EXECUTORS,
    "executor.resources": RESTART_QUERY,
    "guarantee": RESTART_QUERY,
    "idleTimeout": RESTART_QUERY,
    "image": RESTART_QUERY,
    "kafka": RESTART_QUERY,
    "maxParallelism": FORBIDDEN,
    "onBadRecord": RESTART_QUERY,
    "onSourceLoss": RESTART_QUERY,
    "replicas": LIVE,
    "run": RESTART_QUERY,
    "schedule": LIVE,
    "standbyReplicas": RESTART_QUERY,
    "startFrom": RESTART_QUERY,
    "suspend": LIVE,
    "topology": RESTART_QUERY,
    "transactionTimeout": RESTART_QUERY,
    "upgrade": LIVE,
}
"""By field of the spec, or field of a field. The topology is NEEDS_STATE_MIGRATION where
`versions/state_changes.py` says so."""

COMES_OR_GOES = {"schedule": RESTART_QUERY}
"""Fields that have a heavier class where they come or go: the Job of one run makes way for the CronJob that makes many,
or the other way round, and the run under way goes with it."""


def class_of_change(path: str, *, comes_or_goes: bool) -> str:
    """The class of a change of a field.

    >>> class_of_change("schedule", comes_or_goes=True), class_of_change("schedule", comes_or_goes=False)
    ('RestartQuery', 'Live')
    """
    return COMES_OR_GOES.get(path, class_of(path)) if comes_or_goes else class_of(path)


def is_divided(path: str) -> bool:
    """Whether fields inside it have classes of their own."""
    return any(field.startswith(f"{path}.") for field in FIELDS)


def class_of(path: str) -> str:
    """The class of a field, of one inside it, or of all inside it.

    >>> class_of("replicas"), class_of("driver.resources.limits.memory"), class_of("executor.podTemplate.spec")
    ('Live', 'RestartQuery', 'RollExecutors')
    >>> class_of("executor")
    'RestartQuery'
    """
    steps = path.split(".")
    for length in (2, 1):
        if (found := FIELDS.get(".".join(steps[:length]))) is not None:
            return found
    return heaviest(kind for field, kind in FIELDS.items() if field.startswith(f"{path}."))


def heaviest(classes: Iterable[str]) -> str:
    """The heaviest of the classes.

    >>> heaviest(["Live", "RestartQuery"]), heaviest([])
    ('RestartQuery', 'Live')
    """
    return max(classes, key=CLASSES.index, default=LIVE)
