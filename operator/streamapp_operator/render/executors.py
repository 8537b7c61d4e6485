# SPDX-License-Identifier: Apache-2.0
"""The executors: the template of their pods, which the driver makes, and the budget for disturbing them."""

from __future__ import annotations

import hashlib
import json

from streamapp.manifest.model import PodSpec
from streamapp_operator.manifest.app import App
from streamapp_operator.names import driver_name, executors_name
from streamapp_operator.render.kafka import kafka_mounts, kafka_volumes
from streamapp_operator.render.meta import TEMPLATE_ANNOTATION, Object, made, selector
from streamapp_operator.render.pods import (
    CONTAINER_SECURITY,
    POD_SECURITY,
    SCRATCH_MOUNTS,
    SCRATCH_VOLUMES,
    SECRETS_DIR,
    TOLERATIONS,
    image_of,
    pod_template,
    pull_secrets,
    secrets_volume,
)
from streamapp_operator.render.sizes import executor_size
from streamapp_operator.render.user_template import JAVA_OPTIONS, environment, require_no_token
from streamapp_operator.settings import Settings

EXECUTOR = "executor"
_JAVA_OPTIONS = "-Dspark.master=k8s://https://kubernetes.default.svc:443"
"""Spark reads the secret of its connections from a file only where it knows that it is on Kubernetes, and tells its
executors so only over such a connection."""


def executor_template(app: App, settings: Settings) -> Object:
    """The template with all that Spark does not put in by itself, and with its own fingerprint. Image, size, ports and
    command are Spark's."""
    template = _template(app, settings, app.manifest.spec.executor)
    text = json.dumps(template, sort_keys=True)
    template["metadata"]["annotations"][TEMPLATE_ANNOTATION] = hashlib.sha256(text.encode()).hexdigest()[:16]
    return template


def plain_template(app: App, settings: Settings) -> Object:
    """The template without the user's part: that part can change under a running driver, ours may need another
    driver."""
    return _template(app, settings, None)


def tried_pod(app: App, settings: Settings) -> Object:
    """A pod as Spark makes it from the template, to ask the API server whether it would take one. It has the account
    that every namespace has: the app's own may not be there yet."""
    pod = executor_template(app, settings)
    size = executor_size(app, settings)
    memory = f"{size.heap + size.overhead}Mi"
    limits = {"memory": memory, **({} if size.cpu_limit is None else {"cpu": size.cpu_limit})}
    pod["metadata"] |= {"generateName": f"{app.base}-tried-exec-", "namespace": app.namespace}
    del pod["spec"]["serviceAccountName"]
    for container in pod["spec"]["containers"]:
        if container["name"] == EXECUTOR:
            given = container.get("resources") or {}
            ours = {"requests": {"cpu": size.cpu, "memory": memory}, "limits": limits}
            resources = {part: {**(given.get(part) or {}), **ours[part]} for part in ours}
            container |= {"image": image_of(app, settings), "resources": resources}
    return pod


def _template(app: App, settings: Settings, pod_spec: PodSpec | None) -> Object:
    spec: Object = {
        # Its own name is that of the driver's account, but no token is mounted: an executor asks no API server.
        "serviceAccountName": driver_name(app.base),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 10,
        "securityContext": POD_SECURITY,
        "tolerations": TOLERATIONS,
        "containers": [
            {
                "name": EXECUTOR,
                "env": [{"name": JAVA_OPTIONS, "value": _JAVA_OPTIONS}],
                "securityContext": CONTAINER_SECURITY,
                "volumeMounts": [
                    *SCRATCH_MOUNTS,
                    {"name": "credentials", "mountPath": SECRETS_DIR, "readOnly": True},
                    *kafka_mounts(app),
                ],
            }
        ],
        "volumes": [*SCRATCH_VOLUMES, secrets_volume(app, "rpc-secret"), *kafka_volumes(app)],
        **pull_secrets(settings),
    }
    template = pod_template(
        app, settings, EXECUTOR, spec, settings.executor_pod_template, pod_spec.pod_template if pod_spec else None
    )
    require_no_token(template)
    _keep_java_options(template)
    return {"apiVersion": "v1", "kind": "Pod", **template}


def _keep_java_options(template: Object) -> None:
    """Puts our Java options before the user's, whose variable has the same name and so has taken the place of ours."""
    for item in environment(EXECUTOR, template):
        if item.get("name") == JAVA_OPTIONS and item["value"] != _JAVA_OPTIONS:
            item["value"] = f"{_JAVA_OPTIONS} {item['value']}"


def disruption_budget(app: App, replicas: int) -> Object:
    """The budget that lets one executor at a time be taken away: it takes its state along, and the others restore it.

    A share would not do: executors have no controller of a kind whose size Kubernetes knows.
    """
    return made(
        app,
        "policy/v1",
        "PodDisruptionBudget",
        executors_name(app.base),
        EXECUTOR,
        spec={
            "minAvailable": max(0, replicas - 1),
            "selector": {"matchLabels": selector(app.base, EXECUTOR)},
        },
    )
