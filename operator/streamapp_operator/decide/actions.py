# SPDX-License-Identifier: Apache-2.0
"""The actions on an app and its objects."""

from __future__ import annotations

from dataclasses import dataclass

from streamapp_operator.decide.additions import Path
from streamapp_operator.render.meta import Object


@dataclass(frozen=True)
class Apply:
    """Make an object what it should be."""

    wanted: Object
    why: str
    is_new: bool


@dataclass(frozen=True)
class Delete:
    """Take an object away: this very one."""

    found: Object
    why: str
    grace: int | None = None
    """Seconds it gets to end in order; None: as many as it asks for itself."""


@dataclass(frozen=True)
class Scale:
    """Tell a running driver how many executors it is to have."""

    driver: Object
    replicas: int
    why: str


@dataclass(frozen=True)
class SetFinalizer:
    """Make the app wait for us when it is deleted, or not."""

    on: bool
    why: str


@dataclass(frozen=True)
class RemoveFields:
    """Take out of an object what somebody has added to it."""

    found: Object
    paths: tuple[Path, ...]
    why: str


Action = Apply | Delete | Scale | SetFinalizer | RemoveFields


def kind_of(action: Action) -> str:
    """The kind of the object that an action changes."""
    if isinstance(action, Apply):
        return str(action.wanted["kind"])
    return str(action.found["kind"]) if isinstance(action, Delete | RemoveFields) else "Pod"
