# SPDX-License-Identifier: Apache-2.0
"""The operator in the namespace of a test, for that namespace alone, as plain manifests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from cluster.images import OPERATOR, RUNTIME
from cluster.namespace import Manifest, Namespace
from cluster.pods import CONTAINER_SECURITY, POD_SECURITY, account

NAME = "streamapp-operator"

_APPLIED = ["get", "list", "watch", "create", "patch", "delete"]
RULES: tuple[Manifest, ...] = (
    {"apiGroups": ["streamapp.dev"], "resources": ["streamapps"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": ["streamapp.dev"], "resources": ["streamapps/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["configmaps", "services", "serviceaccounts"], "verbs": _APPLIED},
    {"apiGroups": ["apps"], "resources": ["controllerrevisions", "statefulsets"], "verbs": _APPLIED},
    {"apiGroups": ["batch"], "resources": ["jobs", "cronjobs"], "verbs": _APPLIED},
    {"apiGroups": ["networking.k8s.io"], "resources": ["networkpolicies"], "verbs": _APPLIED},
    {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": _APPLIED},
    {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": _APPLIED},
    # Only by name: the operator never sees a Secret that it does not know of.
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "create", "patch"]},
    # Nobody may give what they have not: create and deletecollection are there for the drivers' Role.
    {
        "apiGroups": [""],
        "resources": ["pods"],
        "verbs": ["get", "list", "watch", "create", "delete", "deletecollection"],
    },
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
)


def install(namespace: Namespace, **settings: Any) -> None:
    """Installs the operator and waits until it runs.

    Args:
        namespace: where it is, and the only place that it looks at.
        settings: what a chart's values would say, by the names of the operator's settings.
    """
    namespace.apply(*account(NAME, *RULES), _deployment({"image": RUNTIME, **settings}))
    namespace.kubectl("rollout", "status", f"deployment/{NAME}", "--timeout=90s")


def _deployment(settings: Mapping[str, Any]) -> Manifest:
    labels = {"app": NAME}
    container = {
        "name": "operator",
        "image": OPERATOR,
        "imagePullPolicy": "IfNotPresent",
        "env": [{"name": "STREAMAPP_SETTINGS", "value": json.dumps(settings)}],
        "resources": {"requests": {"cpu": "20m", "memory": "96Mi"}},
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    spec = {
        "serviceAccountName": NAME,
        "securityContext": POD_SECURITY,
        "terminationGracePeriodSeconds": 5,
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME},
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
