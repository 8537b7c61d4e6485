# SPDX-License-Identifier: Apache-2.0
"""The driver's account at the API server, and its rights there: to make executors, and nothing else."""

from __future__ import annotations

from streamapp_operator.manifest.app import App
from streamapp_operator.names import driver_name
from streamapp_operator.render.meta import Object, made
from streamapp_operator.settings import Settings

DRIVER_RULES: list[Object] = [
    {
        "apiGroups": [""],
        "resources": ["pods"],
        # get: its own pod, which is to own the executors. create, delete, deletecollection: executors come and go, at
        # the end all of them. list, watch: what became of them.
        "verbs": ["get", "list", "watch", "create", "delete", "deletecollection"],
    }
]


def _account(app: App, name: str, settings: Settings) -> Object:
    account = made(app, "v1", "ServiceAccount", name, automountServiceAccountToken=False)
    if settings.service_account_annotations:
        account["metadata"].setdefault("annotations", {}).update(settings.service_account_annotations)
    return account


def access(app: App, settings: Settings) -> tuple[Object, ...]:
    name = driver_name(app.base)
    rbac = "rbac.authorization.k8s.io"
    return (
        _account(app, name, settings),
        made(app, f"{rbac}/v1", "Role", name, rules=DRIVER_RULES),
        made(
            app,
            f"{rbac}/v1",
            "RoleBinding",
            name,
            roleRef={"apiGroup": rbac, "kind": "Role", "name": name},
            subjects=[{"kind": "ServiceAccount", "name": name, "namespace": app.namespace}],
        ),
    )
