# SPDX-License-Identifier: Apache-2.0
"""The observation of an app: all that a decision rests on, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from streamapp_operator.crd.reading import status_in
from streamapp_operator.driver.answer import Answer
from streamapp_operator.render.meta import Object

LISTED = (
    "ControllerRevision",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "Service",
    "StatefulSet",
    "CronJob",
    "Job",
)
"""Kinds of an app's objects. The Secret is not among them: it is read by its name, so that the operator sees no other
one."""
APP_KIND = "StreamApp"
EVERY_KIND = frozenset({APP_KIND, "Pod", "Secret", *LISTED})
DECISIVE = frozenset({APP_KIND, "Pod", "Secret", "ControllerRevision", "CronJob", "Job"})
"""Kinds of objects on which any action may depend.

An object of another kind is only compared with the wanted one, and nothing else follows from it."""


@dataclass(frozen=True)
class Position:
    """Where an app is in its input."""

    produced: int
    """The sum of the ends of all partitions."""
    consumed: int
    """The sum of the offsets up to which the app has committed."""
    partitions: int
    topics: frozenset[str] = frozenset()
    """The topics that the input is in."""


@dataclass(frozen=True)
class Observation:
    """An app's resource and all that belongs to it."""

    body: Object
    children: Mapping[tuple[str, str], Object] = field(default_factory=dict)
    """By kind and name; only those that the resource owns."""
    driver: Object | None = None
    """The driver's pod; of several runs that of the last one."""
    drivers: tuple[Object, ...] = ()
    """The pods of all drivers: an earlier one may still be on its way to its end."""
    jobs: tuple[Object, ...] = ()
    """The Jobs that are runs of the app: its own, and those that its CronJob has made."""
    executors: tuple[Object, ...] = ()
    """The executors' pods."""
    status: Answer | None = None
    """The driver's answer about itself; None when it does not answer."""
    silence: str = ""
    """Why it does not answer."""
    trouble: str = ""
    """Why the cluster cannot make or start its pod, or has ended it; empty when it does not say so."""
    position: Position | None = None
    """Where the app is in its input; None when that is not asked for, or not known."""
    unknown: str = ""
    """Why the position is not known."""
    secrets: Mapping[str, Object | None] = field(default_factory=dict, repr=False)
    """The Secrets that the app's `kafka` names; None for one that is not there."""
    code: Object | None = None
    """The ConfigMap that the app's `code` names; None when it names none, or there is none."""
    predecessor: Object | None = None
    """The resource that has the namespace and name of the owner whose state the app is to go on with, if one has."""
    token: str = field(default="", repr=False)
    """The token by which its live interface knows the operator."""

    @cached_property
    def earlier_status(self) -> dict[str, Any]:
        """The readable part of the resource's status. Only this property reads it."""
        return status_in(self.body)
