# SPDX-License-Identifier: Apache-2.0
"""The paths of the API server's URLs."""

from __future__ import annotations

from urllib.parse import quote

from streamapp_operator.cluster.errors import KubeError
from streamapp_operator.manifest.modules import CODE_KIND

CORE = "/api/v1"
_KINDS: dict[str, tuple[str, str]] = {
    "ConfigMap": (CORE, "configmaps"),
    CODE_KIND: (CORE, "configmaps"),
    "Event": (CORE, "events"),
    "Pod": (CORE, "pods"),
    "Secret": (CORE, "secrets"),
    "Service": (CORE, "services"),
    "ServiceAccount": (CORE, "serviceaccounts"),
    "ControllerRevision": ("/apis/apps/v1", "controllerrevisions"),
    "StatefulSet": ("/apis/apps/v1", "statefulsets"),
    "CronJob": ("/apis/batch/v1", "cronjobs"),
    "Job": ("/apis/batch/v1", "jobs"),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases"),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies"),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets"),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    "StreamApp": ("/apis/streamapp.dev/v1alpha1", "streamapps"),
}


def resource_of(kind: str) -> tuple[str, str, str]:
    """The group of a kind (empty for the core's), its version and its plural."""
    base, plural = _KINDS[kind]
    *_, group, version = ("", *base.removeprefix("/apis").removeprefix("/api").strip("/").split("/"))
    return group, version, plural


def path_of(kind: str, namespace: str | None, name: str | None = None, subresource: str = "") -> str:
    """The path of an object's URL, or of a kind's in a namespace (None: in all).

    Names may come from people who have fewer rights than we do. Each stays one segment of the path, whatever it holds.

    Raises:
        KubeError: for a name that no object can have.

    >>> path_of("Secret", "shop", "../billing/kafka")
    '/api/v1/namespaces/shop/secrets/..%2Fbilling%2Fkafka'
    """
    base, plural = _KINDS[kind]
    path = f"{base}/namespaces/{segment(namespace)}/{plural}" if namespace is not None else f"{base}/{plural}"
    path += "" if name is None else f"/{segment(name)}"
    return path + (f"/{segment(subresource)}" if subresource else "")


def segment(name: str) -> str:
    """A name as one segment of a path.

    Raises:
        KubeError: for a name that no object can have.
    """
    if name in ("", ".", ".."):  # clients and servers take them for something else
        raise KubeError(400, f"'{name}' cannot be the name of an object")
    return quote(name, safe="")
