# SPDX-License-Identifier: Apache-2.0
"""The phase of an app whose queries run, by what its stores still have to get back."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

STARTING, RESTORING, RUNNING = "Starting", "Restoring", "Running"
BRIEF_SECONDS = 10.0
"""A restore of an app that runs, as when partitions move to another executor, is a phase after so long. Most are over
sooner, and no more than a longer epoch; whoever waits for Ready would see it go and come."""


class Phases:
    """Says the phase at each look.

    Args:
        clock: seconds that never go back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None
        """When a restore of the running app was first seen."""

    def of(self, before: str, restore: Mapping[str, Mapping[str, Any]], awaited: Mapping[str, int]) -> str:
        """
        Args:
            before: the phase of the last look.
            restore, awaited: as `phase_of` has them.
        """
        found = phase_of(restore, awaited)
        if found != RESTORING or before != RUNNING:
            self._since = None
            return found
        if self._since is None:
            self._since = self._clock()
        return RUNNING if self._clock() - self._since < BRIEF_SECONDS else RESTORING


def phase_of(restore: Mapping[str, Mapping[str, Any]], awaited: Mapping[str, int]) -> str:
    """
    A store whose restore has not begun is as far from being there as one whose restore is under way: an app that goes
    on with its state is not Running before.

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
