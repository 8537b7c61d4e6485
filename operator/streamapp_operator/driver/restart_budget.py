# SPDX-License-Identifier: Apache-2.0
"""Limits how often a driver may fail, by cause. Pure, from the driver's pod and the counts before.

A driver that ends is started again by Kubernetes, after pauses that grow from ten seconds to five minutes. Where that
cannot help, it is not started any more: the app stays down until its manifest changes or somebody asks for a restart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from streamapp_operator.driver.pods import ABSENT, STOPPING, DriverState
from streamapp_operator.times import seconds_since, stamp

DATA, CODE, INPUT = "DataError", "CodeError", "InputError"
MEMORY, STATE, INFRASTRUCTURE = "OutOfMemory", "StateLost", "Infrastructure"
USERS = (DATA, CODE, INPUT)
"""Causes that lie with the app or its input: the next start meets the same."""

BUDGETS: Mapping[str, int | None] = {DATA: 3, CODE: 3, INPUT: 6, MEMORY: 5, STATE: None, INFRASTRUCTURE: None}
"""Starts after failures of that cause; None: no limit. A topic that is missing may come a little later than its app; a
Kafka that is away for a night comes back, and nobody should have to type anything then."""
WELL_SECONDS = 600.0
"""Seconds without a failure after which the counts are forgotten; Kubernetes forgets its backoff as late."""

_FIXES = {
    DATA: "correct the producer of the data, or set spec.onBadRecord",
    CODE: "correct the expression or function",
    INPUT: "follow the message",
    MEMORY: "raise limits.memory in spec.driver.resources",
}


@dataclass(frozen=True)
class Failures:
    """The failures that were counted."""

    of: str
    """The version, and the attempt at it, that the counts are of."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Failures by cause."""
    message: str = ""
    """The message of the last failure."""
    time: str = ""
    pod: str = ""
    """The uid of the driver's pod that was counted last, and how many of its ends were counted."""
    seen: int = 0

    @property
    def used_up(self) -> str | None:
        """The cause that has used up its starts; None when none has."""
        for cause, count in self.counts.items():
            budget = BUDGETS.get(cause)
            if budget is not None and count > budget:
                return cause
        return None

    def words(self, name: str) -> str:
        """Why the app stays down, and how to start it again; `name` is its own."""
        cause = self.used_up
        assert cause is not None
        return (
            f"the driver has failed {self.counts[cause]} times ({cause}) and is not started again; the last time: "
            f"{self.message}. Fix: {_FIXES[cause]}; then type: kubectl streamapp restart {name}"
        )

    def to_status(self) -> dict[str, Any] | None:
        """The failures as the resource's status keeps them; None when there is nothing to keep."""
        if not self.counts and not self.seen:
            return None
        found = {
            "of": self.of,
            "counts": dict(self.counts),
            "message": self.message,
            "time": self.time,
            "pod": self.pod,
            "seen": self.seen,
        }
        return {key: value for key, value in found.items() if value not in ("", {})}


def count_failures(
    before: Mapping[str, Any], driver: DriverState, of: str, *, outdated: bool, well: bool, now: datetime
) -> Failures:
    """
    Args:
        before: the failures in the status; empty: none.
        driver: its pod.
        of: the version, and the attempt at it, that is to run.
        outdated: whether the pod is not of it yet.
        well: whether the app processes records now.
        now: the time.
    """
    old = _read(before)
    if old.of != of:
        old = Failures(of, pod=old.pod, seen=old.seen)
    if driver.state in (ABSENT, STOPPING):
        return old
    fresh = driver.ended - (old.seen if old.pod == driver.uid else 0)
    if fresh > 0:
        old = replace(old, pod=driver.uid, seen=driver.ended)
        if driver.cause and not outdated:
            counts = {**old.counts, driver.cause: old.counts.get(driver.cause, 0) + fresh}
            return replace(old, counts=counts, message=driver.error, time=stamp(now))
    if old.counts and well and (not old.time or seconds_since(old.time, now) > WELL_SECONDS):
        return replace(old, counts={}, message="", time="")
    return old


def _read(before: Mapping[str, Any]) -> Failures:
    names = ("of", "counts", "message", "time", "pod", "seen")
    return Failures(**{"of": "", **{name: before[name] for name in names if name in before}})
