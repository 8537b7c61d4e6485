# SPDX-License-Identifier: Apache-2.0
"""Pod templates of the driver that give more than an app needs, and some that do not."""

from __future__ import annotations

from typing import Any

Template = dict[str, Any]


def _container(**fields: Any) -> Template:
    return {"spec": {"containers": [{"name": "driver", **fields}]}}


def _mount(name: str, path: str) -> Template:
    return _container(volumeMounts=[{"name": name, "mountPath": path}])


def _env(name: str) -> Template:
    return _container(env=[{"name": name, "value": "x"}])


IN_POLICY: list[tuple[Template, str, str]] = [
    ({"spec": {"hostNetwork": True}}, "hostNamespaces", "spec.hostNetwork"),
    ({"spec": {"hostPID": True}}, "hostNamespaces", "spec.hostPID"),
    ({"spec": {"hostIPC": True}}, "hostNamespaces", "spec.hostIPC"),
    ({"spec": {"serviceAccountName": "admin"}}, "serviceAccount", "spec.serviceAccountName"),
    ({"spec": {"initContainers": [{"name": "i", "image": "x"}]}}, "containers", "spec.initContainers"),
    ({"spec": {"containers": [{"name": "side", "image": "x"}]}}, "containers", "spec.containers[side]"),
    ({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}}, "hostPath", "spec.volumes[v].hostPath"),
    ({"spec": {"volumes": [{"name": "v", "nfs": {"server": "s"}}]}}, "volumes", "spec.volumes[v].nfs"),
    ({"spec": {"volumes": [{"name": "config", "configMap": {"name": "x"}}]}}, "mounts", "spec.volumes[config]"),
    ({"spec": {"nodeName": "control-plane"}}, "node", "spec.nodeName"),
    ({"spec": {"hostAliases": [{"ip": "10.0.0.1"}]}}, "network", "spec.hostAliases"),
    ({"spec": {"securityContext": {"runAsUser": 0}}}, "securityContext", "spec.securityContext.runAsUser"),
    ({"spec": {"aFieldOfTomorrow": 1}}, "other", "spec.aFieldOfTomorrow"),
    (_container(command=["sh"]), "containers", "spec.containers[driver].command"),
    (_container(envFrom=[{"secretRef": {"name": "x"}}]), "environment", "spec.containers[driver].envFrom"),
    (
        _container(securityContext={"privileged": True}),
        "securityContext",
        "spec.containers[driver].securityContext.privileged",
    ),
    (
        _container(securityContext={"capabilities": {"add": ["SYS_ADMIN"]}}),
        "securityContext",
        "spec.containers[driver].securityContext.capabilities",
    ),
    (_mount("v", "/opt/spark/jars"), "mounts", "spec.containers[driver].volumeMounts[v]"),
    (_mount("v", "/mnt/../opt"), "mounts", "spec.containers[driver].volumeMounts[v]"),
    (_mount("config", "/mnt/x"), "mounts", "spec.containers[driver].volumeMounts[config]"),
    *(
        (_env(name), "environment", f"spec.containers[driver].env[{name}]")
        for name in (
            "PYTHONPATH",
            "LD_PRELOAD",
            "SPARK_CONF_DIR",
            "SPARK_SUBMIT_OPTS",
            "PATH",
            "POD_IP",
            "KUBERNETES_SERVICE_HOST",
            "JAVA_HOME",
            "CLASSPATH",
        )
    ),
]
"""The template, the part that allows it, and the field: the admission policy refuses these too."""
REFUSED: list[tuple[Template, str, str]] = [
    *IN_POLICY,
    ({"metadata": {"finalizers": ["x"]}}, "other", "metadata.finalizers"),
    ({"status": {}}, "other", "status"),
    (
        {"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/driver": "unconfined"}}},
        "securityContext",
        "metadata.annotations[container.apparmor.security.beta.kubernetes.io/driver]",
    ),
    (
        _container(ports=[{"containerPort": 1, "hostPort": 1}]),
        "hostNamespaces",
        "spec.containers[driver].ports.hostPort",
    ),
    (
        _container(env=[{"name": "JAVA_TOOL_OPTIONS", "value": "-Xss2m -javaagent:/mnt/a.jar"}]),
        "environment",
        "spec.containers[driver].env[JAVA_TOOL_OPTIONS]",
    ),
]
TAKEN: list[Template] = [
    {},
    {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}},
    {"spec": {"nodeSelector": {"a": "b"}, "tolerations": [], "affinity": {}, "priorityClassName": "high"}},
    {
        "spec": {
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 1000,
                "fsGroup": 1000,
                "supplementalGroups": [2000],
                "seccompProfile": {"type": "RuntimeDefault"},
            }
        }
    },
    {
        "spec": {
            "volumes": [
                {"name": "v", "emptyDir": {}},
                {"name": "w", "secret": {"secretName": "s"}},
                {"name": "work", "emptyDir": {"sizeLimit": "1Gi"}},
            ]
        }
    },
    _mount("v", "/mnt/files"),
    _container(
        securityContext={"privileged": False, "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    ),
    _container(env=[{"name": "TZ", "value": "UTC"}, {"name": "JDK_JAVA_OPTIONS", "value": "-Xss2m -XX:+UseZGC"}]),
    _container(resources={"limits": {"cpu": "1"}}),
]
