# SPDX-License-Identifier: Apache-2.0
"""The common parts of the pods of driver and executors. They pass Pod Security `restricted`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamapp.errors import ManifestError
from streamapp_operator.manifest.app import App
from streamapp_operator.names import secret_name
from streamapp_operator.render.merge import merged
from streamapp_operator.render.meta import APP_ANNOTATION, Object, labels
from streamapp_operator.render.permits import problem_of_image, problems_of_template
from streamapp_operator.render.user_template import raise_for, require_java_options, require_maps
from streamapp_operator.settings import Settings

LIVE_PORT, RPC_PORT, BLOCK_PORT = 8080, 7078, 7079
WORK_DIR = "/var/lib/streamapp"
CONFIG_DIR = "/etc/streamapp/config"
SECRETS_DIR = "/etc/streamapp/credentials"

POD_SECURITY: Object = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY: Object = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
SCRATCH_VOLUMES: list[Object] = [{"name": "work", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]
SCRATCH_MOUNTS: list[Object] = [
    {"name": "work", "mountPath": WORK_DIR},
    {"name": "tmp", "mountPath": "/tmp"},
]
TOLERATIONS: list[Object] = [
    {
        "key": f"node.kubernetes.io/{state}",
        "operator": "Exists",
        "effect": "NoExecute",
        # Then another pod does the work, and fences this one if it is at work after all: it can do no harm.
        "tolerationSeconds": 5,
    }
    for state in ("unreachable", "not-ready")
]
"""The tolerations that say how long a pod is left on a node that does not answer: no epoch ends without it."""


def image_of(app: App, settings: Settings) -> str:
    return app.manifest.spec.image or app.image or settings.image


def secrets_volume(app: App, *keys: str) -> Object:
    """The credentials, of which a pod gets only the ones it needs."""
    return {
        "name": "credentials",
        "secret": {
            "secretName": secret_name(app.base),
            "items": [{"key": key, "path": key} for key in keys],
        },
    }


def pull_secrets(settings: Settings) -> Object:
    if not settings.image_pull_secrets:
        return {}
    return {"imagePullSecrets": [{"name": name} for name in settings.image_pull_secrets]}


def pod_template(
    app: App,
    settings: Settings,
    component: str,
    spec: Object,
    given: Mapping[str, Any],
    user_template: dict[str, Any] | None,
) -> Object:
    """
    Args:
        app: whose pods they are.
        settings: of the operator.
        component: `driver` or `executor`.
        spec: ours.
        given: the template of the operator's settings, which goes over ours.
        user_template: the template of the manifest, which goes over both. The labels that pods are found by stay ours.

    Raises:
        ManifestError: when the user's part says what it may not.
    """
    ours = {"metadata": {"labels": {}, "annotations": {}}, "spec": spec}
    require_maps(component, user_template or {})
    require_java_options(component, user_template or {})
    raise_for(problems_of_template(component, user_template or {}, settings))
    if (refused := problem_of_image(app.manifest.spec.image, settings)) is not None:
        raise ManifestError([refused])
    template: Object = merged(merged(ours, given), user_template or {})
    metadata = template["metadata"]
    metadata["labels"] = {**metadata["labels"], **labels(app.base, component)}
    metadata["annotations"] = {**metadata["annotations"], APP_ANNOTATION: app.name}
    return template
