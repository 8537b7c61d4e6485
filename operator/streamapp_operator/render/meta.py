# SPDX-License-Identifier: Apache-2.0
"""The metadata that all objects of an app have in common."""

from __future__ import annotations

import hashlib
import json
from importlib.metadata import version
from typing import Any

from streamapp.manifest import API_VERSION, KIND
from streamapp_operator.manifest.app import App

Object = dict[str, Any]

MANAGER = "streamapp-operator"
"""Field manager of server-side apply, and the value of the managed-by label."""
TEMPLATE_ANNOTATION = "streamapp.dev/template"
"""On the driver's pod: fingerprint of all that it was started with; another one means a restart. On executors' pods:
fingerprint of their template; another one means that they are replaced one by one. The ConfigMap has the one that is
wanted."""

ATTEMPT_ANNOTATION = "streamapp.dev/attempt"
"""On the driver's pod: the attempt that its author has asked for, `App.own_attempt`. A pod that differs from the wanted
one in TEMPLATE_ANNOTATION alone is started anew for the operator's own settings."""
FINGERPRINT_ANNOTATION = "streamapp.dev/fingerprint"
"""Fingerprint of the object as we made it: so that a field which is no longer wanted shows."""
APP_ANNOTATION = "streamapp.dev/app"
"""Name of the app that an object or pod belongs to; a label may not be long enough for it."""

_PREFIX = "app.kubernetes.io"
INSTANCE_LABEL = f"{_PREFIX}/instance"
"""Which app an object or pod belongs to, by its base name."""
_ABOUT_US = {f"{_PREFIX}/part-of": "streamapp", f"{_PREFIX}/version": version("streamapp").replace("+", "_")}
"""Labels that nothing is found by. Pods go without them: another version of ours alone restarts nothing."""
MANAGED = f"{_PREFIX}/managed-by={MANAGER}"
"""Selects all that belongs to any app."""


def labels(base: str, component: str | None = None) -> dict[str, str]:
    """Labels of an app's objects; those of pods name the component too."""
    found = {f"{_PREFIX}/name": "streamapp", f"{_PREFIX}/instance": base, f"{_PREFIX}/managed-by": MANAGER}
    return {**found, f"{_PREFIX}/component": component} if component else found


def selector(base: str, component: str) -> dict[str, str]:
    """The labels that pods of that component are found by."""
    return {f"{_PREFIX}/instance": base, f"{_PREFIX}/component": component}


def selector_text(base: str, component: str | None = None) -> str:
    """The same as text, for requests and for `status.selector`."""
    pairs = selector(base, component) if component else {f"{_PREFIX}/instance": base}
    return ",".join(f"{key}={value}" for key, value in {**pairs, f"{_PREFIX}/managed-by": MANAGER}.items())


def labels_of(selector: str) -> dict[str, str]:
    """The labels that a text of `selector_text` asks for."""
    return dict(pair.split("=", 1) for pair in selector.split(",")) if selector else {}


def component_of(pod: Object) -> str | None:
    """The component of the app that the pod is, driver or executor."""
    found: str | None = pod["metadata"].get("labels", {}).get(f"{_PREFIX}/component")
    return found


def is_owned_by(item: Object, uid: str) -> bool:
    return any(owner["uid"] == uid for owner in item["metadata"].get("ownerReferences", ()))


def controller_of(item: Object) -> Object:
    """The reference to the controller of the object, which has made it; empty when there is none."""
    owners: list[Object] = item["metadata"].get("ownerReferences", [])
    return next((owner for owner in owners if owner.get("controller")), {})


def was_made_by(item: Object, *kinds: str) -> bool:
    """Whether something of these kinds has made the object; it may be gone by now. Labels are no proof: a user who
    makes a pod writes them. Names are none either: people make Jobs of a CronJob under names of their own."""
    return controller_of(item).get("kind") in kinds


def is_orphan_of(item: Object, app: str) -> bool:
    """Whether we have made it for an app of that name, and nothing owns it any more: somebody has deleted the app with
    `--cascade=orphan`, or taken the reference away."""
    metadata = item["metadata"]
    return (
        not metadata.get("ownerReferences")
        and metadata.get("labels", {}).get(f"{_PREFIX}/managed-by") == MANAGER
        and metadata.get("annotations", {}).get(APP_ANNOTATION) == app
    )


def sealed(item: Object) -> Object:
    """The object with its own fingerprint on it."""
    text = json.dumps(item, sort_keys=True)
    metadata = item["metadata"]
    mark = {FINGERPRINT_ANNOTATION: hashlib.sha256(text.encode()).hexdigest()[:16]}
    return {**item, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **mark}}}


def made(app: App, api_version: str, kind: str, name: str, component: str | None = None, **body: Any) -> Object:
    """An object that the app owns, so that it goes with the app."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": app.namespace,
            "labels": {**labels(app.base, component), **_ABOUT_US},
            "annotations": {APP_ANNOTATION: app.name},
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": KIND,
                    "name": app.name,
                    "uid": app.uid,
                    "controller": True,
                }
            ],
        },
        **body,
    }
