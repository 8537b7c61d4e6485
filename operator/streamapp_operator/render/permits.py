# SPDX-License-Identifier: Apache-2.0
"""Checks the fields of a manifest's pod templates. Every field has a part; those of `PLAIN` may always be given, the
others where the value `apps.podTemplate.allow` of the chart names their part. A field that is in no table needs
`other`, so that no field that Kubernetes gets later is let through unseen. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from streamapp.errors import Problem
from streamapp_operator.manifest.addresses import EVERYWHERE
from streamapp_operator.settings import Settings

PLAIN = ""
CONTAINERS, ENVIRONMENT, HOST_NAMESPACES, HOST_PATH = "containers", "environment", "hostNamespaces", "hostPath"
MOUNTS, NETWORK, NODE, OTHER = "mounts", "network", "node", "other"
SECURITY_CONTEXT, SERVICE_ACCOUNT, VOLUMES = "securityContext", "serviceAccount", "volumes"
PARTS = (
    CONTAINERS,
    ENVIRONMENT,
    HOST_NAMESPACES,
    HOST_PATH,
    MOUNTS,
    NETWORK,
    NODE,
    OTHER,
    SECURITY_CONTEXT,
    SERVICE_ACCOUNT,
    VOLUMES,
)
"""The parts that a value of the chart may allow."""

POD_FIELDS: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "activeDeadlineSeconds",
            "affinity",
            "dnsPolicy",
            "enableServiceLinks",
            "imagePullSecrets",
            "nodeSelector",
            "preemptionPolicy",
            "priorityClassName",
            "resources",
            "restartPolicy",
            "terminationGracePeriodSeconds",
            "tolerations",
            "topologySpreadConstraints",
        ),
        PLAIN,
    ),
    **dict.fromkeys(("ephemeralContainers", "initContainers"), CONTAINERS),
    **dict.fromkeys(("hostIPC", "hostNetwork", "hostPID", "hostUsers", "shareProcessNamespace"), HOST_NAMESPACES),
    **dict.fromkeys(("dnsConfig", "hostAliases", "hostname", "subdomain", "hostnameOverride"), NETWORK),
    **dict.fromkeys(("nodeName", "runtimeClassName", "schedulerName"), NODE),
    **dict.fromkeys(("automountServiceAccountToken", "serviceAccount", "serviceAccountName"), SERVICE_ACCOUNT),
}
"""The parts of the fields of a pod's spec; `containers`, `volumes` and `securityContext` are looked into."""
CONTAINER_FIELDS: Mapping[str, str] = {
    **dict.fromkeys(("imagePullPolicy", "name", "resizePolicy", "resources"), PLAIN),
    **dict.fromkeys(
        ("args", "command", "image", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe", "workingDir"),
        CONTAINERS,
    ),
    "envFrom": ENVIRONMENT,
    "volumeDevices": VOLUMES,
}
"""The parts of the fields of the app's own container; `env`, `ports`, `securityContext` and `volumeMounts` are looked
into."""
VOLUME_FIELDS: Mapping[str, str] = {
    **dict.fromkeys(
        ("configMap", "downwardAPI", "emptyDir", "ephemeral", "name", "persistentVolumeClaim", "projected", "secret"),
        PLAIN,
    ),
    "hostPath": HOST_PATH,
}
"""The parts of the kinds of volumes. Any other kind needs `volumes`."""
FREE_MOUNTS = ("/data", "/mnt", "/srv")
"""Folders of an image that hold nothing of ours: a mount below them changes no program."""
OUR_VOLUMES = ("config", "credentials", "kafka", "tmp", "work")
"""Names of our volumes: a user's volume or mount of the same name would take the place of ours."""
OUR_VARIABLES = ("POD_IP", "POD_NAME")
LOADERS = re.compile(
    r"(LD_|DYLD_|PYTHON|PYSPARK|SPARK_|HADOOP_|KUBERNETES_|GLIBC_|MALLOC_|OPENSSL_|SSL_CERT_).*"
    r"|JAVA_HOME|CLASSPATH|PATH|HOME|BASH_ENV|ENV|IFS|SHELLOPTS|BASHOPTS|GCONV_PATH|LOCPATH|TMPDIR"
)
"""Variables that say what is loaded, or where it is looked for."""
_JAVA = ("JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS")
_JAVA_LOADS = re.compile(
    r"(^|\s)(-javaagent|-agent(lib|path)|-Xbootclasspath|-Xrun|-cp|-classpath|--class-path|--module-path|-p\s"
    r"|--upgrade-module-path|--patch-module|-XX:On|-XX:Flags|-Djava\.(class|library|security|ext|system)"
    r"|-Djdk\.|-Dcom\.sun\.management|@|-XX:\+?StartFlightRecord|-jar)"
)
_STRICT: Mapping[str, Callable[[Any], bool]] = {
    "allowPrivilegeEscalation": lambda value: value is False,
    "capabilities": lambda value: isinstance(value, dict) and set(value) <= {"drop"} and value.get("drop") == ["ALL"],
    "privileged": lambda value: value is False,
    "readOnlyRootFilesystem": lambda value: value is True,
    "runAsNonRoot": lambda value: value is True,
    "seccompProfile": lambda value: value == {"type": "RuntimeDefault"},
    "fsGroup": lambda value: _is_user(value),
    "fsGroupChangePolicy": lambda value: isinstance(value, str),
    "runAsGroup": lambda value: _is_user(value),
    "runAsUser": lambda value: _is_user(value),
    "supplementalGroups": lambda value: isinstance(value, list) and all(_is_user(each) for each in value),
}
_ANNOTATIONS = re.compile(r"(container\.apparmor\.security\.beta|seccomp\.security\.alpha)\.kubernetes\.io/.*")
_Found = Iterator[tuple[str, Any, str]]
"""Fields, their values, and the part that each needs."""


def problems_of_template(component: str, template: Any, settings: Settings) -> Iterator[Problem]:
    """The fields that a pod template has and may not have, with the value that would allow each.

    Args:
        component: `driver` or `executor`, which is the name of the app's container too.
        template: of the manifest; another check reports one that has not the shape of a template.
        settings: of the operator.
    """
    for field, value, part in _template(component, template):
        if part not in settings.pod_template_allow:
            message = f"{_short(value)} is not allowed by the operator's settings"
            fix = f"remove it, or have the operator's chart installed with apps.podTemplate.allow: [{part}]"
            yield Problem(None, f"{component}.podTemplate.{field}", None, message, fix)


def permitting_all(settings: Settings) -> Settings:
    """The same settings, but manifests may say all that they like."""
    return replace(
        settings,
        pod_template_allow=PARTS,
        allowed_images=(),
        allowed_brokers=(EVERYWHERE,),
        allowed_token_endpoints=(EVERYWHERE,),
    )


def problem_of_image(image: str | None, settings: Settings) -> Problem | None:
    """Why an app's image may not be used; None when it may."""
    allowed = settings.allowed_images
    if image is None or image == settings.image or not allowed or any(_begins(image, each) for each in allowed):
        return None
    message = f"images are taken from {', '.join(allowed)} only"
    return Problem(None, "image", image, message, "use one of these, or add it to the chart's apps.allowedImages")


def _begins(image: str, allowed: str) -> bool:
    """Whether an image is this one, or in this registry or folder: `example/ab` is not in `example/a`."""
    rest = image.removeprefix(allowed.rstrip("/"))
    return rest != image and (rest == "" or rest[0] in "/:@")


def _template(component: str, template: Any) -> _Found:
    for name, value in _fields(template):
        if name == "metadata":
            yield from _metadata(value)
        elif name == "spec":
            yield from _pod(component, value)
        else:
            yield name, value, OTHER


def _metadata(metadata: Any) -> _Found:
    for name, value in _fields(metadata):
        if name == "annotations":
            for key, text in _fields(value):
                if _ANNOTATIONS.fullmatch(key):
                    yield f"metadata.annotations[{key}]", text, SECURITY_CONTEXT
        elif name != "labels":
            yield f"metadata.{name}", value, OTHER


def _pod(component: str, spec: Any) -> _Found:
    for name, value in _fields(spec):
        field = f"spec.{name}"
        if name == "containers":
            for index, each in enumerate(_items(value)):
                at = f"{field}[{each.get('name', index)}]"
                if each.get("name") == component:
                    yield from _container(at, each)
                else:
                    yield at, each.get("image", each), CONTAINERS
        elif name == "securityContext":
            yield from _security(field, value)
        elif name == "volumes":
            for index, each in enumerate(_items(value)):
                yield from _volume(f"{field}[{each.get('name', index)}]", each)
        elif (part := POD_FIELDS.get(name, OTHER)) != PLAIN:
            yield field, value, part


def _container(at: str, container: Mapping[str, Any]) -> _Found:
    for name, value in container.items():
        field = f"{at}.{name}"
        if name == "env":
            for each in _items(value):
                yield from _variable(f"{at}.env[{each.get('name')}]", each)
        elif name == "ports":
            for each in _items(value):
                yield from (
                    (f"{field}.{key}", each[key], HOST_NAMESPACES) for key in ("hostPort", "hostIP") if key in each
                )
        elif name == "securityContext":
            yield from _security(field, value)
        elif name == "volumeMounts":
            for each in _items(value):
                path = str(each.get("mountPath"))
                inside = any(path.startswith(f"{folder}/") for folder in FREE_MOUNTS) and "/.." not in path
                if not inside or each.get("name") in OUR_VOLUMES or "mountPropagation" in each:
                    yield f"{field}[{each.get('name')}]", path, MOUNTS
        elif (part := CONTAINER_FIELDS.get(name, OTHER)) != PLAIN:
            yield field, value, part


def _variable(at: str, variable: Mapping[str, Any]) -> _Found:
    name, value = str(variable.get("name")), variable.get("value")
    loads = name in _JAVA and (_JAVA_LOADS.search(value) is not None if isinstance(value, str) else True)
    if name in OUR_VARIABLES or LOADERS.fullmatch(name) or loads:
        yield at, name if value is None else value, ENVIRONMENT


def _volume(at: str, volume: Mapping[str, Any]) -> _Found:
    if volume.get("name") in OUR_VOLUMES and not (
        volume["name"] in ("tmp", "work") and set(volume) <= {"name", "emptyDir"}
    ):
        yield at, volume["name"], MOUNTS
    for kind, value in volume.items():
        if (part := VOLUME_FIELDS.get(kind, VOLUMES)) != PLAIN:
            yield f"{at}.{kind}", value, part


def _security(at: str, context: Any) -> _Found:
    for name, value in _fields(context):
        if name not in _STRICT or not _STRICT[name](value):
            yield f"{at}.{name}", value, SECURITY_CONTEXT


def _is_user(value: Any) -> bool:
    """Whether the value is the id of a user other than root."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _fields(value: Any) -> Iterator[tuple[str, Any]]:
    return ((str(name), each) for name, each in value.items()) if isinstance(value, dict) else iter(())


def _items(value: Any) -> Iterator[Mapping[str, Any]]:
    return (each for each in value if isinstance(each, dict)) if isinstance(value, list) else iter(())


def _short(value: Any) -> str:
    text = str(value)
    return repr(value) if len(text) <= 60 else f"{text[:60]!r}…"
