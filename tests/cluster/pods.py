# SPDX-License-Identifier: Apache-2.0
"""Pods for tests, as strict as those of users: Pod Security `restricted`, and a read-only root."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cluster.images import RUNTIME
from cluster.namespace import Manifest

WRITABLE = {"tmp": "/tmp", "work": "/var/lib/streamapp"}
"""Volumes, and the paths where the images write."""
FILES = "/files"
"""The path of the files of a pod's ConfigMap."""

SCRIPTS = Path(__file__).parent / "in_pods"

POD_SECURITY = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
CONTAINER_SECURITY = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def pod(
    name: str,
    *,
    command: Sequence[str] = (),
    args: Sequence[str] = (),
    image: str = RUNTIME,
    labels: Mapping[str, str] | None = None,
    service_account: str = "",
    files: str = "",
    container: Mapping[str, Any] | None = None,
) -> Manifest:
    """A pod of one container that runs once.

    Args:
        command, args: instead of the image's entry point; for it.
        service_account: the account whose token it gets; without one it gets none.
        files: a ConfigMap, mounted at FILES.
        container: further fields of the container.
    """
    volumes: list[Manifest] = [{"name": volume, "emptyDir": {}} for volume in WRITABLE]
    mounts = [{"name": volume, "mountPath": path} for volume, path in WRITABLE.items()]
    if files:
        volumes.append({"name": "files", "configMap": {"name": files}})
        mounts.append({"name": "files", "mountPath": FILES})
    only: Manifest = {
        "name": "main",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "securityContext": CONTAINER_SECURITY,
        "volumeMounts": mounts,
        "env": [field("POD_NAME", "metadata.name"), field("POD_IP", "status.podIP")],
        **({"command": list(command)} if command else {}),
        **({"args": list(args)} if args else {}),
        **(container or {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name, **(labels or {})}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 2,
            "automountServiceAccountToken": bool(service_account),
            "securityContext": POD_SECURITY,
            "containers": [only],
            "volumes": volumes,
            **({"serviceAccountName": service_account} if service_account else {}),
        },
    }


def field(variable: str, path: str) -> Manifest:
    """An environment variable with a value that the pod learns only once it exists."""
    return {"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def script(name: str, *arguments: str) -> list[str]:
    """The command that runs one of the files of the folder in_pods."""
    return ["python3", "-c", (SCRIPTS / f"{name}.py").read_text(), *arguments]


def config_map(name: str, files: Mapping[str, str]) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": dict(files)}


def service(name: str, port: int, *, headless: bool = False) -> Manifest:
    """A name for the pods labelled `app: NAME`; headless, it leads to the pods themselves."""
    spec: Manifest = {"selector": {"app": name}, "ports": [{"port": port}]}
    if headless:
        # Peers look each other up while they start.
        spec |= {"clusterIP": "None", "publishNotReadyAddresses": True}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}


def account(name: str, *rules: Manifest) -> list[Manifest]:
    """A service account with just these rights in its namespace."""
    metadata = {"name": name}
    rbac = "rbac.authorization.k8s.io"
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": metadata, "rules": list(rules)},
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name}],
        },
    ]
