# SPDX-License-Identifier: Apache-2.0
"""Everything that a decision about an app rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from streamapp_operator import live
from streamapp_operator.lag import Lags, Position
from streamapp_operator.login import named_secrets
from streamapp_operator.modules import CODE_KIND, named_config_map
from streamapp_operator.names import base_name, secret_name
from streamapp_operator.pods import has_ended, newest
from streamapp_operator.render.config import credentials_of
from streamapp_operator.render.driver import DRIVER
from streamapp_operator.render.executors import EXECUTOR
from streamapp_operator.render.meta import Object, component_of, is_owned_by, selector_text

LISTED = (
    "ControllerRevision",
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "Service",
    "StatefulSet",
    "CronJob",
    "Job",
)
"""Kinds of an app's objects. The Secret is none of them: it is read by its name, so that no other one is seen."""
ALWAYS_FRESH = frozenset({"Secret"})
APP_KIND = "StreamApp"
EVERY_KIND = frozenset({APP_KIND, "Pod", "Secret", *LISTED})
DECISIVE = frozenset({APP_KIND, "Pod", "Secret", "ControllerRevision", "CronJob", "Job"})
"""What is to be done about an object of any kind may depend on these.

One of another kind is held against what it should be, and nothing else follows from it."""


class Objects(Protocol):
    """Where objects are looked up: the API server itself, or what is kept of it."""

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """The object; None when there is none."""

    def list(self, kind: str, namespace: str, selector: str) -> list[Object]:
        """The objects with these labels."""


@dataclass(frozen=True)
class Observation:
    """An app's resource and all that belongs to it."""

    body: Object
    children: Mapping[tuple[str, str], Object] = field(default_factory=dict)
    """By kind and name; only those that the resource owns."""
    driver: Object | None = None
    """The driver's pod; of several runs that of the last one."""
    drivers: tuple[Object, ...] = ()
    """All of them: an earlier one may still be on its way to its end."""
    jobs: tuple[Object, ...] = ()
    """The Jobs that are runs of the app: its own, and those that its CronJob has made."""
    executors: tuple[Object, ...] = ()
    """The executors' pods."""
    status: Mapping[str, Any] | None = None
    """What the driver says about itself; None when it does not answer."""
    silence: str = ""
    """Why it does not answer."""
    position: Position | None = None
    """Where the app is in its input; None when that is not asked for, or not known."""
    unknown: str = ""
    """Why it is not known."""
    secrets: Mapping[str, Object | None] = field(default_factory=dict, repr=False)
    """Those that the app's `kafka` names; None for one that is not there."""
    code: Object | None = None
    """The ConfigMap that the app's `code` names; None when it names none, or there is none."""
    token: str = field(default="", repr=False)
    """By which its live interface knows the operator."""


def observe(
    objects: Objects, lags: Lags, namespace: str, name: str, earlier: Observation | None = None
) -> Observation | None:
    """None when there is no such resource.

    Args:
        objects: where they are looked up.
        lags: tells where the app is in its input.
        namespace: of the resource.
        name: of the resource.
        earlier: a look of a moment ago: Kafka is not asked again so soon, nor a driver whose pod is as it was then.

    Raises:
        KubeError: when the API server does not answer. Nothing may be decided on half of the facts.
    """
    body = objects.get("StreamApp", namespace, name)
    if body is None:
        return None
    base, uid = base_name(name), body["metadata"]["uid"]
    found = [item for kind in LISTED for item in objects.list(kind, namespace, selector_text(base))]
    secret = objects.get("Secret", namespace, secret_name(base))
    if secret is not None:
        found.append(secret)
    children = {(item["kind"], item["metadata"]["name"]): item for item in found if is_owned_by(item, uid)}
    pods = objects.list("Pod", namespace, selector_text(base))
    drivers = tuple(pod for pod in pods if component_of(pod) == DRIVER)
    owners = [uid, *(item["metadata"]["uid"] for item in children.values() if item["kind"] == "CronJob")]
    jobs = [item for item in found if item["kind"] == "Job" and any(is_owned_by(item, owner) for owner in owners)]
    known = credentials_of(children.get(("Secret", secret_name(base)), {}))
    seen = Observation(
        body=body,
        children=children,
        driver=newest(drivers),
        drivers=drivers,
        jobs=tuple(jobs),
        executors=tuple(pod for pod in pods if component_of(pod) == EXECUTOR),
        silence="there is no driver",
        secrets={name: objects.get("Secret", namespace, name) for name in named_secrets(body)},
        code=objects.get(CODE_KIND, namespace, code) if (code := named_config_map(body)) is not None else None,
        token=known.token if known else "",
    )
    return _asked(seen, lags, earlier)


def _asked(seen: Observation, lags: Lags, earlier: Observation | None) -> Observation:
    """With what driver and Kafka say."""
    if earlier is not None and (_version(earlier.driver), earlier.token) == (_version(seen.driver), seen.token):
        status, silence = earlier.status, earlier.silence
    elif seen.driver is not None and not has_ended(seen.driver):
        status, silence = live.ask(seen.driver, seen.token)
    else:
        status, silence = None, seen.silence
    if earlier is not None:
        position, unknown = earlier.position, earlier.unknown
    else:
        position, unknown = lags.of(seen.body, seen.secrets)
    return replace(seen, status=status, silence=silence, position=position, unknown=unknown)


def _version(pod: Object | None) -> str:
    return str(pod["metadata"]["resourceVersion"]) if pod is not None else ""
