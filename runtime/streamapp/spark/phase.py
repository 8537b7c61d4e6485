# SPDX-License-Identifier: Apache-2.0
"""The phase of an app whose queries run, by the restores that its stores still need."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

STARTING, RESTORING, RUNNING = "Starting", "Restoring", "Running"
BRIEF_SECONDS = 10.0
"""The time after which a restore of a running app becomes its phase. Such a restore happens when partitions move to
another executor. Most end sooner and are like a longer epoch; if they were a phase, Ready would go and come back."""


class Phases:
    """The phase of an app, from look to look.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None
        """The time at which a restore of the running app was first seen."""

    def of(self, before: str, restore: Mapping[str, Mapping[str, Any]], awaited: Mapping[str, int]) -> str:
        """Returns the phase at this look.

        Args:
            before: the phase of the last look.
            restore, awaited: as for `phase_of`.
        """
        found = phase_of(restore, awaited)
        if found != RESTORING or before != RUNNING:
            self._since = None
            return found
        if self._since is None:
            self._since = self._clock()
        return RUNNING if self._clock() - self._since < BRIEF_SECONDS else RESTORING


def phase_of(restore: Mapping[str, Mapping[str, Any]], awaited: Mapping[str, int]) -> str:
    """Returns the phase of an app whose queries run.

    A store whose restore has not begun counts like one whose restore is under way: an app that goes on with its state
    is not Running before both have ended.

    >>> phase_of({}, {"totals": 2}), phase_of({"totals": {"partitions": 1, "restoring": 1}}, {"totals": 2})
    ('Starting', 'Restoring')
    >>> phase_of({"totals": {"partitions": 1, "restoring": 0}}, {"totals": 2})
    'Restoring'
    >>> phase_of({"totals": {"partitions": 2, "restoring": 0}}, {"totals": 2}), phase_of({}, {})
    ('Running', 'Running')

    Args:
        restore: by store, as the status has it: how many of its partitions were or are being restored.
        awaited: stores that the first epoch of a query brings back, and the number of their partitions.
    """
    if any(store["restoring"] for store in restore.values()):
        return RESTORING
    missing = [name for name, partitions in awaited.items() if _begun(restore, name) < partitions]
    if not missing:
        return RUNNING
    return RESTORING if any(_begun(restore, name) for name in missing) else STARTING


def _begun(restore: Mapping[str, Mapping[str, Any]], store: str) -> int:
    return int(restore.get(store, {}).get("partitions", 0))
