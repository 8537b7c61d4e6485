# SPDX-License-Identifier: Apache-2.0
"""A StreamApp on the cluster, as tests use it."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml
from kubernetes.client.exceptions import ApiException

from cluster.access import CommandFailed
from cluster.install import NAME as OPERATOR
from cluster.namespace import Manifest, Namespace
from cluster.pods import script
from lib.java import JAVA_OPTIONS, SHORT_LIVED
from lib.wait import until
from streamapp_operator.render.merge import merged

READY_SECONDS = 180.0
GONE_SECONDS = 90.0
SIGKILLED = 137
"""The exit code of a container that SIGKILL has ended."""
LISTED = (
    "pods,services,statefulsets,controllerrevisions,configmaps,secrets,serviceaccounts,roles,rolebindings,"
    "networkpolicies,poddisruptionbudgets,jobs,cronjobs"
)
"""The kinds of an app's objects."""


def _quick(container: str) -> Manifest:
    env = [{"name": JAVA_OPTIONS, "value": SHORT_LIVED}]
    return {"podTemplate": {"spec": {"containers": [{"name": container, "env": env}]}}}


def _end_of(container: str, states: list[Manifest]) -> Manifest:
    """The end of that container in a pod's states; empty while it has not ended."""
    for state in states:
        for each in state["status"].get("containerStatuses", ()):
            for ended in (each["state"].get("terminated", {}), each["lastState"].get("terminated", {})):
                if ended.get("containerID") == container:
                    found: Manifest = ended
                    return found
    return {}


_QUICK: Manifest = {"spec": {"driver": _quick("driver"), "executor": _quick("executor")}}


class App:
    """One StreamApp, by its name. `lib.verify.Proof` can watch it."""

    def __init__(self, namespace: Namespace, name: str) -> None:
        self.namespace, self.name = namespace, name

    # --- doing ----------------------------------------------------------------------------------------------

    def apply(self, manifest: str) -> None:
        """Applies the app. Raises CommandFailed if the API server refuses it."""
        self.namespace.apply(json.dumps(merged(_QUICK, yaml.safe_load(manifest))))

    def patch(self, **spec: Any) -> None:
        """Sets fields of the spec."""
        self.namespace.kubectl("patch", f"sapp/{self.name}", "--type=merge", "-p", json.dumps({"spec": spec}))

    def kill(self, pod: str) -> None:
        """Sends SIGKILL to all of the pod's processes, whatever they do. They were not asked to end in order before."""
        before = self.namespace.get(f"pod/{pod}")
        assert "deletionTimestamp" not in before["metadata"], f"pod {pod} is being deleted already"
        killed = before["status"]["containerStatuses"][0]["containerID"]
        with self.namespace.watching(f"pod/{pod}") as states:
            with suppress(CommandFailed):  # it may end with the rest
                self.namespace.kubectl("exec", pod, "--", "sh", "-c", "kill -KILL -1")
            end = until(lambda: _end_of(killed, states()), GONE_SECONDS, f"the end of pod {pod}", every=0.2)
        assert (end["exitCode"], end["reason"]) == (SIGKILLED, "Error"), end

    def lose(self, pod: str) -> None:
        """Deletes the pod by force, as if its node were gone; its processes may or may not notice meanwhile."""
        self.namespace.kubectl("delete", f"pod/{pod}", "--force", "--grace-period=0")

    def use_up_memory(self, pod: str) -> None:
        """Makes the pod's control group run out of memory. The kernel ends the Java process for it."""
        with suppress(CommandFailed):  # it ends with the rest
            self.namespace.kubectl("exec", pod, "--", *script("eat_memory"))

    def stop(self) -> int:
        """Suspends it: the driver ends its epoch and goes."""
        self.patch(suspend=True)
        self.await_phase("Suspended", GONE_SECONDS)
        return 0

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs `kubectl streamapp query` for it."""
        return self.streamapp("query", *arguments)

    def streamapp(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs a command of `kubectl streamapp` for it."""
        plugin = Path(sys.executable).with_name("kubectl-streamapp")
        words = [str(plugin), command, self.name, *arguments, "-n", self.namespace.name]
        environment = self.namespace.cluster.environment
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)

    def live(self, page: str, *body: str) -> str:
        """A page of the live interface, read with the token; with a body it sends a PUT."""
        token = base64.b64decode(self.namespace.get(f"secret/{self.name}-credentials")["data"]["token"]).decode()
        command = script("live", page, *body)
        return self.namespace.kubectl("exec", "-i", f"{self.name}-driver-0", "--", *command, stdin=token)

    # --- looking --------------------------------------------------------------------------------------------

    def status(self) -> Manifest:
        found: Manifest = self.namespace.get(f"sapp/{self.name}").get("status", {})
        return found

    def condition(self, kind: str) -> Manifest:
        """The condition; empty while there is none."""
        return next((c for c in self.status().get("conditions", ()) if c["type"] == kind), {})

    def driver(self) -> Manifest:
        """The driver's pod."""
        return self.namespace.get(f"pod/{self.name}-driver-0")

    def drivers(self) -> list[str]:
        """Names of the drivers' pods, the oldest first: each run to the end of the input has one of its own."""
        found = self._driver_pods()
        return [p["metadata"]["name"] for p in sorted(found, key=lambda p: str(p["metadata"]["creationTimestamp"]))]

    def driver_container(self) -> str:
        """The id of the driver pod's container; it changes with each restart."""
        return str(self.driver()["status"]["containerStatuses"][0]["containerID"])

    def _has_ready_driver(self, other_than: str) -> bool:
        """Whether a driver's pod is ready by its own status; neither the one with that uid, nor the one with that
        container."""
        ready = {"type": "Ready", "status": "True"}
        return any(
            other_than not in (pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["containerID"])
            for pod in self._driver_pods()
            if any(ready.items() <= each.items() for each in pod["status"].get("conditions", ()))
        )

    def _driver_pods(self) -> list[Manifest]:
        found: list[Manifest] = self.namespace.get("pods", labels=self._labels_of("driver"))["items"]
        return found

    def said_by_drivers(self) -> str:
        """The logs of the drivers, or the reason why there are none yet."""
        return self._try(self.namespace.kubectl, "logs", "-l", self._labels_of("driver"), "--tail=-1")

    def executors(self) -> list[str]:
        """Names of the executors' pods that run, the oldest first."""
        found = self.namespace.get("pods", labels=self._labels_of("executor"))["items"]
        alive = [
            pod
            for pod in found
            if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]
        return [p["metadata"]["name"] for p in sorted(alive, key=lambda p: str(p["metadata"]["creationTimestamp"]))]

    def events(self, reason: str) -> list[str]:
        """The messages of the operator's events of the app with that reason, the oldest first."""
        found = self.namespace.get("events", fields=f"involvedObject.name={self.name},reason={reason}")
        return [event["message"] for event in sorted(found["items"], key=lambda e: str(e["firstTimestamp"]))]

    def objects(self) -> list[str]:
        """All objects that belong to the app, as KIND/NAME."""
        return self.namespace.kubectl("get", LISTED, "-l", self._label, "-o", "name").split()

    def require_alive(self) -> None:
        phase = self.status().get("phase")
        assert phase not in ("Failed", "Invalid"), f"{self.name} is {phase}\n{self.tail()}"

    def tail(self) -> str:
        """A text that helps to find out why the app does not do what it should."""
        looks = {
            "app": ("describe", f"sapp/{self.name}"),
            "pods": ("get", "pods", "-o", "wide"),
            "driver": ("logs", "-l", self._labels_of("driver"), "--tail=60"),
            "executors": ("logs", "-l", self._labels_of("executor"), "--tail=30"),
            "operator": ("logs", f"deployment/{OPERATOR}", "--tail=40"),
        }
        told = {what: self._try(self.namespace.kubectl, *arguments) for what, arguments in looks.items()}
        told["what the driver says of itself"] = self._try(self.live, "status")
        return "\n".join(f"--- {what}\n{text}" for what, text in told.items())

    # --- waiting --------------------------------------------------------------------------------------------

    def await_ready(self, seconds: float = READY_SECONDS, *, other_than: str = "") -> None:
        """Waits until it processes records, with another driver than the pod with that uid, or the container with that
        ID."""

        def ready() -> bool:
            if self.condition("Ready").get("status") != "True":
                return False
            # The status may still be that of the pod that has gone.
            return not other_than or self._has_ready_driver(other_than)

        self._until(ready, seconds, "Ready")

    def await_phase(self, phase: str, seconds: float = READY_SECONDS) -> None:
        self._until(lambda: self.status().get("phase") == phase, seconds, phase)

    def await_executors(self, count: int, seconds: float = READY_SECONDS, *, without: str = "") -> None:
        """Waits until so many run, also by the status, none of them with that name."""

        def there() -> bool:
            names = self.executors()
            return len(names) == count and without not in names and self.status().get("replicas") == count

        self._until(there, seconds, f"{count} executors")

    def await_last_error(self, words: str, seconds: float = 60.0) -> None:
        self._until(lambda: self.status().get("lastError", {}).get("message") == words, seconds, f"told: {words}")

    def await_degraded(self, why: str, seconds: float = 60.0) -> None:
        """Waits until the condition Degraded is true, with that in its message."""

        def told() -> bool:
            degraded = self.condition("Degraded")
            return degraded.get("status") == "True" and why in degraded["message"]

        self._until(told, seconds, f"Degraded, as of {why}")

    def await_condition(self, kind: str, reason: str, words: str, seconds: float = 60) -> None:
        """Waits until the condition has that reason, with that in its message."""

        def there() -> bool:
            condition = self.condition(kind)
            return condition.get("reason") == reason and words in condition["message"]

        self._until(there, seconds, f"{kind} for {reason} with {words!r}")

    def await_gone(self, seconds: float = GONE_SECONDS) -> None:
        """Waits until nothing is left of it."""
        until(lambda: not self.objects(), seconds, f"all objects of {self.name} are gone", every=0.5)

    def _until(self, condition: Any, seconds: float, what: str) -> None:
        try:
            until(condition, seconds, f"{self.name}: {what}", every=0.5)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.tail()}") from None

    @staticmethod
    def _try(look: Callable[..., str], *arguments: str) -> str:
        try:
            return look(*arguments)
        except (AssertionError, ApiException) as error:
            return str(error)

    def _labels_of(self, component: str) -> str:
        return f"{self._label},app.kubernetes.io/component={component}"

    @property
    def _label(self) -> str:
        return f"app.kubernetes.io/instance={self.name}"
