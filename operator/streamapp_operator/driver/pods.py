# SPDX-License-Identifier: Apache-2.0
"""Reads the state of pods."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from streamapp_operator.render.driver import DRIVER
from streamapp_operator.render.meta import ATTEMPT_ANNOTATION, TEMPLATE_ANNOTATION, Object

ABSENT, PENDING, STARTING, RUNNING, FAILED, STOPPING, ENDED = (
    "Absent",
    "Pending",
    "Starting",
    "Running",
    "Failed",
    "Stopping",
    "Ended",
)

MAKERS = ("StatefulSet", "Job")
"""Kinds that make a driver's pod."""
_HOPELESS = (
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
)
"""Reasons for which a container waits in vain."""


@dataclass(frozen=True)
class DriverState:
    """How the driver's pod is doing; `state` is one of the words above."""

    state: str
    message: str = ""
    ready: bool = False
    restarts: int = 0
    error: str = ""
    """The last words of the container that ended last, if it did not end well."""
    cause: str = ""
    """The kind of that failure."""
    ended: int = 0
    """How often its container has ended."""
    template: str = ""
    """The fingerprint it was made from."""
    attempt: str = ""
    """The attempt that its author had asked for; empty where an earlier operator has made the pod."""
    uid: str = ""
    trouble: str = ""
    """Why the cluster cannot make or start it."""


def driver_state(pod: Object | None, trouble: str = "") -> DriverState:
    """
    Args:
        pod: the driver's; None when there is none.
        trouble: why the cluster cannot make or start the pod, or has ended it.
    """
    found = _state_of(pod)
    if not trouble:
        return found
    if found.state in (ABSENT, PENDING):
        return replace(found, trouble=trouble, message=f"{found.message}: {trouble}")
    error = f"the driver was ended: {trouble}"
    message = error if found.state == FAILED else found.message
    return replace(found, error=error, cause=found.cause or "Infrastructure", message=message)


def _state_of(pod: Object | None) -> DriverState:
    if pod is None:
        return DriverState(ABSENT, "the driver's pod is not there")
    status = pod.get("status", {})
    container = _container(pod)
    last = last_end(pod)
    cause, error = _last_words(last) if last and last.get("exitCode") else ("", "")
    state, message = _state(pod, status, container, error)
    return DriverState(
        state=state,
        message=message,
        ready=state == RUNNING and _condition(status, "Ready").get("status") == "True",
        restarts=container.get("restartCount", 0),
        error=error,
        cause=cause,
        ended=container.get("restartCount", 0) + ("terminated" in container.get("state", {})),
        template=pod["metadata"].get("annotations", {}).get(TEMPLATE_ANNOTATION, ""),
        attempt=pod["metadata"].get("annotations", {}).get(ATTEMPT_ANNOTATION, ""),
        uid=pod["metadata"].get("uid", ""),
    )


def last_end(pod: Object) -> Mapping[str, Any]:
    """How the driver's container ended last; empty while it has not."""
    container = _container(pod)
    ends = (container.get(state, {}).get("terminated") for state in ("state", "lastState"))
    return next(filter(None, ends), {})


def _container(pod: Object) -> Mapping[str, Any]:
    """The status of the driver's container. Kubernetes sorts containers by name, and a user's template may bring
    others."""
    containers = {each["name"]: each for each in pod.get("status", {}).get("containerStatuses", ())}
    found: Mapping[str, Any] = containers.get(DRIVER, {})
    return found


def runs(pod: Object) -> bool:
    """Whether an executor's pod does its work."""
    status = pod.get("status", {})
    return "deletionTimestamp" not in pod["metadata"] and _condition(status, "Ready").get("status") == "True"


def has_ended(pod: Object) -> bool:
    """Whether all that ran in it has ended, and nothing will run in it again."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def newest(items: Iterable[Object]) -> Object | None:
    """The one that was made last."""
    return max(items, key=lambda item: (item["metadata"]["creationTimestamp"], item["metadata"]["name"]), default=None)


def is_lost(pod: Object, now: datetime) -> bool:
    """Whether a pod should have ended and did not: its node does not answer.

    `deletionTimestamp` is when its time to end in order is over. A pod whose node the cluster has given up, which has
    taken it most of a minute already, gets less.
    """
    metadata = pod["metadata"]
    if "deletionTimestamp" not in metadata:
        return False
    over: float = (now - datetime.fromisoformat(metadata["deletionTimestamp"])).total_seconds()
    if _condition(pod.get("status", {}), "DisruptionTarget").get("reason") == "DeletionByTaintManager":
        return over + float(metadata.get("deletionGracePeriodSeconds", 0)) > _EVICTED_SECONDS
    return over > _LOST_SECONDS


def is_over(pod: Object, now: datetime) -> bool:
    """Whether an executor's pod has ended and nobody has cleared it away: its driver, which would, has ended too."""
    ended = [
        container["state"]["terminated"].get("finishedAt")
        for container in pod.get("status", {}).get("containerStatuses", ())
        if "terminated" in container.get("state", {})
    ]
    if not has_ended(pod) or not ended or None in ended:
        return False
    return (now - datetime.fromisoformat(max(ended))).total_seconds() > _OVER_SECONDS


_NAMED = re.compile(r"(DataError|CodeError|InputError|StateLost|Infrastructure): (.*)", re.DOTALL)
_ERROR = re.compile(r"(Error|Exception)\b|\b(ERROR|FATAL|SIGSEGV|SIGBUS)\b|\berror: ")
_NO_ERROR = re.compile(r"\b(TRACE|DEBUG|INFO|WARN|WARNING)\b|^at ")
_CODES: Mapping[Any, str] = {
    134: "it crashed",
    137: "it was killed: it did not end in time after a failed probe, or its node ran out of memory",
    139: "it crashed",
    143: "it was asked to end, as after a failed probe",
}
_LOST_SECONDS = 5.0
_EVICTED_SECONDS = 12.0
"""Seconds for a pod whose node the cluster has given up. A driver that is asked to stop, on a node that works after
all, has mostly ended its epoch by then."""
_OVER_SECONDS = 30.0


def _state(pod: Object, status: Mapping[str, Any], container: Mapping[str, Any], error: str) -> tuple[str, str]:
    if "deletionTimestamp" in pod["metadata"]:
        return STOPPING, "the driver stops"
    if status.get("phase") == "Succeeded":
        return ENDED, "the driver has ended"
    waiting = container.get("state", {}).get("waiting", {})
    if waiting.get("reason") in _HOPELESS:
        return FAILED, error or f"{waiting['reason']}: {waiting.get('message', 'no more is known')}"
    if status.get("phase") == "Failed" or "terminated" in container.get("state", {}):
        return FAILED, error or status.get("message") or "the driver has ended"
    if status.get("phase") != "Running":
        scheduled = _condition(status, "PodScheduled")
        if scheduled.get("status") == "False":
            return PENDING, f"no node takes the driver: {scheduled.get('message', 'no reason is given')}"
        return PENDING, "the driver's pod is being made"
    if not container.get("started"):
        return STARTING, "the driver starts"
    return RUNNING, "the driver runs"


def _last_words(terminated: Mapping[str, Any]) -> tuple[str, str]:
    """The kind of the failure, and its message."""
    if terminated.get("reason") == "OOMKilled":
        return "OutOfMemory", "the driver had too little memory and was ended; raise spec.driver.resources"
    words = str(terminated.get("message") or "").strip()
    if named := _NAMED.match(words):  # the driver itself has named the kind
        return named[1], named[2]
    code = terminated.get("exitCode")
    how = _CODES.get(code, str(terminated.get("reason", "no reason is given")))
    error = _error_in(words)
    return "Infrastructure", f"the driver ended with code {code} ({how})" + (f": {error}" if error else "")


def _error_in(log: str) -> str:
    """The line with the error in the end of a process's log, which Kubernetes keeps of a process that left no message;
    empty where there is none."""
    lines = [line.strip() for line in log.splitlines()]
    may_be = [line for line in lines if line and not _NO_ERROR.search(line)]
    errors = [line for line in may_be if _ERROR.search(line)]
    return next(reversed(errors or may_be), "")


def _condition(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next((c for c in status.get("conditions", ()) if c["type"] == kind), {})
    return found
