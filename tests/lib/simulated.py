# SPDX-License-Identifier: Apache-2.0
"""A cluster of one app in memory: it carries out the operator's decisions at once, and its driver behaves as the test
says."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from streamapp.manifest import API_VERSION, KIND
from streamapp_operator.crd.reading import status_in
from streamapp_operator.decide.actions import Apply, Delete
from streamapp_operator.decide.decision import Decision, decide
from streamapp_operator.driver.answer import read_answer
from streamapp_operator.driver.last_answer import LastAnswer
from streamapp_operator.driver.stall import StallClock
from streamapp_operator.manifest.app import RESTART_ANNOTATION
from streamapp_operator.names import config_name, driver_name
from streamapp_operator.observe.observation import Observation, Position
from streamapp_operator.render import Credentials
from streamapp_operator.render.config import VERSION_ANNOTATION
from streamapp_operator.render.meta import ATTEMPT_ANNOTATION, TEMPLATE_ANNOTATION, Object
from streamapp_operator.settings import Settings
from streamapp_operator.status.events import Event, events_between
from streamapp_operator.status.status import status_of
from streamapp_operator.versions.health_gate import Trial

LOOK_SECONDS = 5.0
START = datetime(2024, 1, 1, tzinfo=UTC)

Behaviour = Callable[[Mapping[str, Any], float], Mapping[str, Any]]
"""A function from the spec's version that the driver has, and the seconds that it has run, to its behaviour: `live`,
the status that it reports, or `failure`, its last words."""


def works(version: Mapping[str, Any], seconds: float) -> Mapping[str, Any]:
    """The driver catches up within 20 seconds."""
    lag = max(0, 2000 - int(seconds * 100))
    return {"live": live(lag=lag, epochs=int(seconds))}


def live(phase: str = "Running", lag: int = 0, epochs: int = 1, **more: Any) -> dict[str, Any]:
    parts = {"counts": {"epoch": epochs, "epochs": epochs, "watermark": None}}
    said = {"phase": phase, "error": None, "lag": {"t/0": lag}, "subTopologies": parts, "restore": {}}
    return {**said, **more}


@dataclass
class Simulation:
    """One app, and all of its objects."""

    behaviour: Behaviour = works
    body: Object = field(default_factory=dict)
    children: dict[tuple[str, str], Object] = field(default_factory=dict)
    now: datetime = START
    trial: Trial | None = None
    last_answer: LastAnswer | None = None
    stall_clock: StallClock | None = None
    settings: Settings = field(default_factory=Settings)
    driver: Object | None = None
    executors: list[Object] = field(default_factory=list)
    since: datetime = START
    """When the driver's container began."""
    failed: int = 0
    events: list[Event] = field(default_factory=list)
    starts: Callable[[str], bool] = lambda template: True
    """Whether executors of that template become ready."""
    position: Position | None = None
    """The position in the app's input, as Kafka reports it."""
    ran: list[str] = field(default_factory=list)
    """Versions that drivers were started with, each once in a row."""
    _uids: Any = field(default_factory=lambda: itertools.count(1))

    # --- the users' part ------------------------------------------------------------------------------------

    def apply(self, seconds: float = LOOK_SECONDS, **spec: Any) -> None:
        """Applies a spec, and lets time pass."""
        if not self.body:
            metadata = {"name": "app", "namespace": "default", "uid": "1", "generation": 0, "annotations": {}}
            self.body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": {}}
        if spec != self.body["spec"]:
            self.body["spec"] = copy.deepcopy(spec)
            self.body["metadata"]["generation"] += 1
        self.run(seconds)

    def restart(self, seconds: float = LOOK_SECONDS) -> None:
        self.body["metadata"]["annotations"][RESTART_ANNOTATION] = self.now.isoformat()
        self.run(seconds)

    # --- the operator's part --------------------------------------------------------------------------------

    def run(self, seconds: float, every: float = LOOK_SECONDS) -> Decision:
        """Lets time pass; the operator looks every few seconds."""
        decision = self.look()
        for _ in range(int(seconds / every)):
            self.now += timedelta(seconds=every)
            decision = self.look()
        return decision

    def look(self) -> Decision:
        self._kubelet()
        said = self._said()
        seen = Observation(
            body=self.body,
            children=copy.deepcopy(self.children),
            driver=copy.deepcopy(self.driver),
            executors=tuple(copy.deepcopy(self.executors)),
            status=read_answer(said.get("live")),
            silence="" if "live" in said else "it does not answer",
            position=self.position,
        )
        past = None, self.trial, self.last_answer, self.stall_clock
        decision = decide(seen, self.settings, Credentials("token", "secret"), self.now, *past)
        self.trial, self.last_answer, self.stall_clock = decision.trial, decision.answer.last, decision.stall_clock
        for action in decision.actions:
            if isinstance(action, Apply):
                self.children[action.wanted["kind"], action.wanted["metadata"]["name"]] = copy.deepcopy(action.wanted)
            elif isinstance(action, Delete):
                found = action.found
                if found["kind"] != "Pod":
                    del self.children[found["kind"], found["metadata"]["name"]]
                elif found["metadata"]["name"] == "app-driver-0":
                    self.driver = None
                else:
                    self.executors = [pod for pod in self.executors if pod["metadata"] != found["metadata"]]
        previous = seen.earlier_status
        status = status_of(decision.facts, "app", decision.target, previous, self.now)
        self.events += events_between(previous, status)
        self.body["status"] = status
        return decision

    # --- the state ------------------------------------------------------------------------------------------

    @property
    def status(self) -> Mapping[str, Any]:
        return status_in(self.body)

    def condition(self, kind: str) -> Mapping[str, Any]:
        return next(c for c in self.status["conditions"] if c["type"] == kind)

    @property
    def version(self) -> str:
        """The version that the operator has acted on last."""
        return str(self.children["ConfigMap", config_name("app")]["metadata"]["annotations"][VERSION_ANNOTATION])

    @property
    def running(self) -> str:
        """The version that the driver has; empty if there is none."""
        return "" if self.driver is None else str(self.driver["version"])

    # --- the rest of the cluster ----------------------------------------------------------------------------

    def _kubelet(self) -> None:
        """Makes the driver's pod, takes it away, and restarts a container that has ended."""
        wanted = self.children.get(("StatefulSet", driver_name("app")))
        if wanted is None or wanted["spec"]["replicas"] == 0:
            self.driver = None
        elif self.driver is None:
            notes = wanted["spec"]["template"]["metadata"]["annotations"]
            self.driver = {
                "kind": "Pod",
                "metadata": {
                    "name": "app-driver-0",
                    "namespace": "default",
                    "uid": f"pod-{next(self._uids)}",
                    "annotations": {mark: notes[mark] for mark in (TEMPLATE_ANNOTATION, ATTEMPT_ANNOTATION)},
                },
                "version": self.version,
                "of": self.children["ControllerRevision", self.version]["data"]["spec"],
            }
            self.since, self.failed = self.now, 0
            if self.ran[-1:] != [self.version]:
                self.ran.append(self.version)
        if self.driver is not None:
            failure = self._does().get("failure")
            if failure is not None:
                self.failed += 1
                self.since = self.now
            self._set_status(failure)
        self._spark()

    def _spark(self) -> None:
        """Makes the executors' pods, as many as there should be."""
        if self.driver is None:
            self.executors = []
            return
        count = self.status.get("desiredReplicas", 1)
        self.executors = self.executors[:count]
        while len(self.executors) < count:
            name = f"app-exec-{next(self._uids)}"
            notes = {TEMPLATE_ANNOTATION: self._template}
            status = {"conditions": [{"type": "Ready", "status": str(self.starts(self._template))}]}
            self.executors.append({"kind": "Pod", "metadata": {"name": name, "annotations": notes}, "status": status})

    @property
    def _template(self) -> str:
        """The template of executors."""
        return str(self.children["ConfigMap", config_name("app")]["metadata"]["annotations"][TEMPLATE_ANNOTATION])

    def _does(self) -> Mapping[str, Any]:
        """The present behaviour of the version's driver."""
        assert self.driver is not None
        return self.behaviour(self.driver["of"], (self.now - self.since).total_seconds())

    def _said(self) -> dict[str, Any]:
        said = dict(self._does()) if self.driver is not None else {}
        if "live" in said:
            replicas = {"wanted": self.status.get("desiredReplicas", 1), "template": self._template}
            said["live"] = {**said["live"], "replicas": replicas}
        return said

    def _set_status(self, failure: str | None) -> None:
        assert self.driver is not None
        container: Object = {"name": "driver", "restartCount": self.failed, "started": True, "state": {"running": {}}}
        if self.failed:
            before = self.driver.get("status", {}).get("containerStatuses", [{}])[0].get("lastState")
            words = {"terminated": {"exitCode": 1, "reason": "Error", "message": failure}}
            container["lastState"] = words if failure is not None else before
        self.driver["status"] = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [container],
        }
