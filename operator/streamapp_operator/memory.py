# SPDX-License-Identifier: Apache-2.0
"""The operator's memory of apps from look to look. All of it is forgotten with the process, or with the app."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from typing import TypeVar

from streamapp_operator.cluster.recorder import Recorder
from streamapp_operator.decide.decision import Decision
from streamapp_operator.decide.settled import Accepted
from streamapp_operator.deletion.kafka import Cleaner
from streamapp_operator.deletion.rights import Rights
from streamapp_operator.driver.client import Drivers
from streamapp_operator.driver.last_answer import LastAnswer
from streamapp_operator.driver.stall import StallClock
from streamapp_operator.observe.lag import Lags
from streamapp_operator.observe.pod_events import PodEvents
from streamapp_operator.render.meta import Object
from streamapp_operator.scaling.autoscaler import History
from streamapp_operator.settings import Settings
from streamapp_operator.turns import Turns
from streamapp_operator.versions.health_gate import Trial
from streamapp_operator.workqueue import Key

NUMBERS_SECONDS = 9.0
"""Numbers that move all the time are written no more often than this, for each app,"""
NUMBERS_PER_SECOND = 33.0
"""and for all apps together."""
TURN_SECONDS = 900.0
"""Seconds at most for which a driver that is started anew for the operator's settings keeps others waiting."""
Notes = MutableMapping[tuple[str, str], Accepted]
"""By kind and name of objects."""
T = TypeVar("T")
K = TypeVar("K")


@dataclass
class Memory:
    """The memory from look to look. Losing it costs connections, and makes autoscaling wait anew."""

    lags: Lags = field(default_factory=Lags)
    cleaner: Cleaner = field(default_factory=Cleaner)
    rights: Rights = field(default_factory=Rights)
    recorder: Recorder = field(default_factory=Recorder)
    drivers: Drivers = field(default_factory=Drivers)
    histories: MutableMapping[Key, tuple[str, History | None]] = field(default_factory=dict)
    """By namespace and name: the uid of the resource that it is about, and what was measured."""

    trials: MutableMapping[Key, Trial] = field(default_factory=dict)
    """By namespace and name: the observations of a version that has to prove itself."""

    last_answers: MutableMapping[Key, LastAnswer] = field(default_factory=dict)
    """By namespace and name: the last answer of the driver."""

    stall_clocks: MutableMapping[Key, StallClock] = field(default_factory=dict)
    """By namespace and name: since when which sub-topology has committed no epoch."""

    accepted: MutableMapping[Key, Notes] = field(default_factory=dict)
    """By namespace and name: the objects that the API server made, by their kind and name, if they were not as
    wanted."""

    pauses: MutableMapping[Key, float] = field(default_factory=dict)
    """By namespace and name: the seconds that the last look asked for, until the next one."""

    pod_events: PodEvents = field(default_factory=PodEvents)

    turns: Turns[Key] = field(default_factory=lambda: Turns(Settings().restarts_at_a_time, TURN_SECONDS))
    """The turns of apps whose drivers are started anew for the operator's settings."""

    @property
    def numbers_seconds(self) -> float:
        """Seconds between two writes of the numbers of one app that move all the time."""
        return max(NUMBERS_SECONDS, len(self.histories) / NUMBERS_PER_SECOND)

    def history(self, body: Object) -> History | None:
        metadata = body["metadata"]
        uid, history = self.histories.get((metadata["namespace"], metadata["name"]), ("", None))
        return history if uid == metadata["uid"] else None

    def keep(self, body: Object, decision: Decision) -> None:
        """Keeps the parts of a decision that the next one needs."""
        metadata = body["metadata"]
        key = metadata["namespace"], metadata["name"]
        self.histories[key] = metadata["uid"], decision.history
        note(self.trials, key, decision.trial)
        note(self.last_answers, key, decision.answer.last)
        note(self.stall_clocks, key, decision.stall_clock)

    def forget(self, namespace: str, name: str) -> None:
        """Forgets an app that does not exist any more."""
        self.histories.pop((namespace, name), None)
        self.trials.pop((namespace, name), None)
        self.last_answers.pop((namespace, name), None)
        self.stall_clocks.pop((namespace, name), None)
        self.accepted.pop((namespace, name), None)
        self.pauses.pop((namespace, name), None)
        self.turns.give((namespace, name))
        self.lags.forget(namespace, name)
        self.pod_events.forget(namespace, name)


def note(notes: MutableMapping[K, T], key: K, what: T | None) -> None:
    """Keeps the value under that key; None: forgets the one that was there."""
    if what is None:
        notes.pop(key, None)
    else:
        notes[key] = what
