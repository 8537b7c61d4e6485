# SPDX-License-Identifier: Apache-2.0
"""Everything that a decision about an app rests on, read anew each time: nothing is remembered, so nothing is stale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from streamapp_operator import live
from streamapp_operator.kube import Kube
from streamapp_operator.names import base_name, driver_pod_name, secret_name
from streamapp_operator.render.config import credentials_of
from streamapp_operator.render.driver import DRIVER
from streamapp_operator.render.executors import EXECUTOR
from streamapp_operator.render.meta import Object, component_of, is_owned_by, selector_text

LISTED = (
    "ServiceAccount",
    "Role",
    "RoleBinding",
    "ConfigMap",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "Service",
    "StatefulSet",
)
"""Kinds of an app's objects. The Secret is none of them: it is read by its name, so that no other one is seen."""


@dataclass(frozen=True)
class Observation:
    """An app's resource and all that belongs to it."""

    body: Object
    children: Mapping[tuple[str, str], Object] = field(default_factory=dict)
    """By kind and name; only those that the resource owns."""
    driver: Object | None = None
    """The driver's pod."""
    executors: tuple[Object, ...] = ()
    """The executors' pods."""
    status: Mapping[str, Any] | None = None
    """What the driver says about itself; None when it does not answer."""
    silence: str = ""
    """Why it does not answer."""


def observe(kube: Kube, namespace: str, name: str) -> Observation | None:
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
    driver = next((pod for pod in pods if pod["metadata"]["name"] == driver_pod_name(base)), None)
    status, silence = None, "there is no driver"
    if driver is not None and component_of(driver) == DRIVER:
        known = credentials_of(children.get(("Secret", secret_name(base)), {}))
        status, silence = live.ask(driver, known.token if known else "")
    return Observation(
        body=body,
        children=children,
        driver=driver,
        executors=tuple(pod for pod in pods if component_of(pod) == EXECUTOR),
        status=status,
        silence=silence,
    )
