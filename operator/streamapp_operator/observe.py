# SPDX-License-Identifier: Apache-2.0
"""Everything that a decision about an app rests on, read anew each time: nothing is remembered, so nothing is stale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamapp_operator import live
from streamapp_operator.kube import Kube
from streamapp_operator.lag import Lags, Position
from streamapp_operator.login import named_secrets
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
    token: str = field(default="", repr=False)
    """By which its live interface knows the operator."""


def observe(kube: Kube, lags: Lags, namespace: str, name: str) -> Observation | None:
    """None when there is no such resource.

    Raises:
        KubeError: when the API server does not answer. Nothing may be decided on half of the facts.
    """
    body = kube.get("StreamApp", namespace, name)
    if body is None:
        return None
    base, uid = base_name(name), body["metadata"]["uid"]
    found = [item for kind in LISTED for item in kube.list(kind, namespace, selector_text(base))]
    secret = kube.get("Secret", namespace, secret_name(base))
    if secret is not None:
        found.append(secret)
    children = {(item["kind"], item["metadata"]["name"]): item for item in found if is_owned_by(item, uid)}
    pods = kube.list("Pod", namespace, selector_text(base))
    drivers = tuple(pod for pod in pods if component_of(pod) == DRIVER)
    driver = newest(drivers)
    owners = [uid, *(item["metadata"]["uid"] for item in children.values() if item["kind"] == "CronJob")]
    jobs = [item for item in found if item["kind"] == "Job" and any(is_owned_by(item, owner) for owner in owners)]
    known = credentials_of(children.get(("Secret", secret_name(base)), {}))
    token = known.token if known else ""
    status, silence = None, "there is no driver"
    if driver is not None and not has_ended(driver):
        status, silence = live.ask(driver, token)
    secrets = {name: kube.get("Secret", namespace, name) for name in named_secrets(body)}
    position, unknown = lags.of(body, secrets)
    return Observation(
        body=body,
        children=children,
        driver=driver,
        drivers=drivers,
        jobs=tuple(jobs),
        executors=tuple(pod for pod in pods if component_of(pod) == EXECUTOR),
        status=status,
        silence=silence,
        position=position,
        unknown=unknown,
        secrets=secrets,
        token=token,
    )
