# SPDX-License-Identifier: Apache-2.0
"""What is wanted and what is seen of an app, side by side: all that status speaks of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamapp_operator.app import App
from streamapp_operator.autoscale import Decision
from streamapp_operator.failures import Failures
from streamapp_operator.pods import ABSENT, FAILED, PENDING, RUNNING, STOPPING, DriverState
from streamapp_operator.rollout import Rollout

PHASES = (
    "Invalid",
    "Suspended",
    "Suspending",
    "Pending",
    "Starting",
    "Restoring",
    "Running",
    "Restarting",
    "Stopped",
    "Failed",
)


@dataclass(frozen=True)
class Facts:
    """One look at one app."""

    generation: int
    app: App | None
    """None when the resource cannot be made into an app."""
    problems: tuple[str, ...]
    """Why not."""
    suspended: bool
    paused: bool
    """Whether we are told to keep our hands off."""
    changes: tuple[str, ...]
    """What we are about to do."""
    driver: DriverState
    live: Mapping[str, Any] | None
    """What the driver says about itself."""
    silence: str
    """Why it says nothing."""
    executors: int
    """That run."""
    scaling: Decision | None = None
    """What autoscaling says; None where there is none."""
    rollout: Rollout = field(default_factory=lambda: Rollout(None))
    """Which version is to run, and why."""
    failures: Failures | None = None
    """Of the driver; None where they are not counted."""
    refusal: str = ""
    """What the API server said when it refused an object of the app."""

    @property
    def wanted_executors(self) -> int:
        return 0 if self.app is None or self.suspended or self.halted else self.app.plan.replicas

    @property
    def halted(self) -> bool:
        """Whether the driver has failed so often that it is not started again."""
        return self.app is not None and self.app.halted

    @property
    def halted_words(self) -> str:
        """Why it is not, and what to do."""
        assert self.app is not None
        assert self.failures is not None
        return self.failures.words(self.app.name)

    @property
    def live_phase(self) -> str:
        """The driver's own word; empty when it says nothing."""
        return str(self.live["phase"]) if self.live is not None else ""

    @property
    def phase(self) -> str:
        """One word for people."""
        state = self.driver.state
        if self.app is None and state == ABSENT:
            return "Invalid"
        if self.suspended:
            return "Suspended" if state == ABSENT and self.executors == 0 else "Suspending"
        if self.halted:
            return "Failed"
        if state in (ABSENT, PENDING):
            return "Pending"
        if state in (FAILED, STOPPING):
            return "Failed" if state == FAILED else "Restarting"
        return self.live_phase if state == RUNNING and self.live_phase in PHASES else "Starting"
