# SPDX-License-Identifier: Apache-2.0
"""The wanted and the observed state of an app, side by side: all that the status is about."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from streamapp_operator.driver.answer import Answer
from streamapp_operator.driver.pods import ABSENT, ENDED, FAILED, PENDING, RUNNING, STOPPING, DriverState
from streamapp_operator.driver.restart_budget import Failures
from streamapp_operator.manifest.app import App
from streamapp_operator.observe.observation import Position
from streamapp_operator.observe.runs import COMPLETED, Run
from streamapp_operator.observe.runs import FAILED as RUN_FAILED
from streamapp_operator.observe.runs import RUNNING as RUN_RUNNING
from streamapp_operator.scaling.autoscaler import Decision
from streamapp_operator.versions.rollout import Rollout

PHASES = (
    "Deleting",
    "Invalid",
    "Suspended",
    "Suspending",
    "Pending",
    "Starting",
    "Restoring",
    "Running",
    "Scheduled",
    "Completed",
    "Restarting",
    "Stopped",
    "Failed",
)


LEADS_NOWHERE = "LeadsNowhere"
"""Reason of a condition and of an event: the app can be run, and drops records at some node."""
_AT_WORK = ("Restoring", "Running")
"""Phases of a driver that has begun its work."""


@dataclass(frozen=True)
class Facts:
    """One look at one app."""

    generation: int
    app: App | None
    """None when the resource cannot be made into an app."""
    problems: tuple[str, ...]
    """Why it cannot."""
    suspended: bool
    paused: bool
    """Whether reconciliation of the app is paused."""
    changes: tuple[str, ...]
    """The actions that the operator is about to take."""
    driver: DriverState
    live: Answer | None
    """The driver's answer about itself."""
    silence: str
    """Why there is none."""
    executors: int
    """Executors that run."""
    remaining: int
    """Pods of executors that are still there, also those that are about to end."""
    before: str = ""
    """The phase so far."""
    stalled: str = ""
    """Which sub-topology commits no epoch although records wait; empty where none stands still."""
    position: Position | None = None
    """The position of the app in its input, as Kafka reports it; None when nobody asked, or Kafka does not answer."""
    scaling: Decision | None = None
    """The decision of autoscaling; None where there is none."""
    rollout: Rollout = field(default_factory=lambda: Rollout(None))
    """Which version is to run, and why."""
    outdated: bool = False
    """Whether the driver that runs is of an earlier version, or of earlier settings, and is about to be replaced."""
    failures: Failures | None = None
    """The failures of the driver; None where they are not counted."""
    unusable_secret: str = ""
    """Why the app cannot log in to Kafka with the Secrets that it names."""
    refusal: str = ""
    """The API server's words when it refused an object of the app."""
    deleting: bool = False
    run: Run | None = None
    """The last run to the end of the input; None where there is none, or the app runs for ever."""
    next_run: datetime | None = None
    """When the next one begins, where a schedule says."""

    @property
    def wanted_executors(self) -> int:
        if self.app is None or self.suspended or self.halted or self.rest is not None:
            return 0
        return self.app.plan.replicas

    @property
    def is_stopped(self) -> bool:
        """Whether no driver runs, or is about to end."""
        return self.driver.state in (ABSENT, ENDED) or (self.driver.state == FAILED and self._run_is_over)

    @property
    def is_gone(self) -> bool:
        """Whether nothing of it runs any more, or is about to end."""
        return self.is_stopped and self.remaining == 0

    @property
    def rest(self) -> str | None:
        """The phase of an app between two runs, or behind the last one: Completed, Scheduled or Failed; None where
        something runs or should run."""
        if not self.is_stopped or self.suspended or (self.run is None and self.next_run is None):
            return None
        if self.run is not None and self.run.result == RUN_RUNNING:
            return None
        if self.run is not None and self.run.result == RUN_FAILED:
            return "Failed"
        return "Scheduled" if self.next_run is not None else "Completed"

    @property
    def _run_is_over(self) -> bool:
        return self.run is not None and self.run.result in (COMPLETED, RUN_FAILED)

    @property
    def halted(self) -> bool:
        """Whether the driver has failed so often that it is not started again."""
        return self.app is not None and self.app.halted

    @property
    def halted_words(self) -> str:
        """Why the driver is not started again, and what to do."""
        assert self.app is not None
        assert self.failures is not None
        return self.failures.words(self.app.name)

    @property
    def live_phase(self) -> str:
        """The driver's own word; empty when it says nothing."""
        return self.live.phase if self.live is not None else ""

    @property
    def is_silent(self) -> bool:
        """Whether the driver does not answer although it could: it is ready, or has been at work."""
        return self.driver.state == RUNNING and self.live is None and (self.driver.ready or self.before in _AT_WORK)

    @property
    def phase(self) -> str:
        """One word for people."""
        state = self.driver.state
        if self.deleting:
            return "Deleting"
        if self.app is None and self.is_stopped:
            return "Invalid"
        if self.suspended:
            return "Suspended" if self.is_gone else "Suspending"
        if self.halted:
            return "Failed"
        if self.rest is not None:
            return self.rest
        if state in (ABSENT, PENDING, ENDED):
            return "Pending"
        if state in (FAILED, STOPPING):
            return "Failed" if state == FAILED else "Restarting"
        if self.is_silent and self.before in _AT_WORK:
            return self.before
        return self.live_phase if state == RUNNING and self.live_phase in PHASES else "Starting"
