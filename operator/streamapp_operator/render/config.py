# SPDX-License-Identifier: Apache-2.0
"""The ConfigMap that the driver reads, with the plan and the executors' template; and the credentials of an app."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass

import yaml

from streamapp.errors import ManifestError, Problem
from streamapp_operator.manifest.app import App
from streamapp_operator.names import config_name, secret_name
from streamapp_operator.render.executors import executor_template
from streamapp_operator.render.kafka import CLIENT
from streamapp_operator.render.meta import TEMPLATE_ANNOTATION, Object, made
from streamapp_operator.settings import Settings

VERSION_ANNOTATION = "streamapp.dev/version"
"""Annotation on the ConfigMap: the ControllerRevision of the version that was acted upon last."""
LIVE_ANNOTATION = "streamapp.dev/live"
"""Annotation on the ConfigMap: the live fields of the spec that were acted upon last, as JSON."""
PLAN, TEMPLATE = "plan.json", "executor.yaml"
# Python's own dumper takes as long as all the rest of a round.
_Dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_LARGEST = 900 * 1024
"""Bytes of the plan at most. An object may have a mebibyte; some of it is for the rest."""


@dataclass(frozen=True, repr=False)
class Credentials:
    """Made once for an app, and then kept."""

    token: str
    """The bearer token of the live interface."""
    rpc_secret: str
    """The secret by which driver and executors know each other, and with which their connections are encrypted."""


def config_map(app: App, settings: Settings) -> Object:
    """
    Raises:
        ManifestError: when the plan is too large for an object.
    """
    plan = app.plan.to_json()
    if len(plan.encode()) > _LARGEST:
        raise ManifestError(
            [
                Problem(
                    None,
                    "topology",
                    None,
                    f"the plan has {len(plan.encode()) // 1024} KiB, and an object of a cluster holds {_largest()} KiB",
                    "make several apps of it, or put large code into an image",
                )
            ]
        )
    template = executor_template(app, settings)
    data = {PLAN: plan, TEMPLATE: yaml.dump(template, Dumper=_Dumper, sort_keys=False)}
    if (login := app.kafka_login) is not None:
        data[CLIENT] = login.properties
    found = made(app, "v1", "ConfigMap", config_name(app.base), data=data)
    found["metadata"]["annotations"] |= {
        VERSION_ANNOTATION: app.version_name,
        LIVE_ANNOTATION: json.dumps(app.live_spec, sort_keys=True),
        TEMPLATE_ANNOTATION: template["metadata"]["annotations"][TEMPLATE_ANNOTATION],
    }
    return found


def secret(app: App, credentials: Credentials) -> Object:
    data = {"token": credentials.token, "rpc-secret": credentials.rpc_secret}
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return made(app, "v1", "Secret", secret_name(app.base), type="Opaque", data=encoded)


def credentials_of(found: Object) -> Credentials | None:
    """The credentials that a Secret has; None when it has not both."""
    data = found.get("data") or {}
    try:
        token, rpc = (base64.b64decode(data[key]).decode() for key in ("token", "rpc-secret"))
    except (KeyError, ValueError):
        return None
    return Credentials(token, rpc) if token and rpc else None


def _largest() -> int:
    return _LARGEST // 1024
