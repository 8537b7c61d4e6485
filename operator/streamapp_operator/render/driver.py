# SPDX-License-Identifier: Apache-2.0
"""The driver: a StatefulSet of one, so that there are never two pods of the name, and the service that names it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

from streamapp.manifest.model import PodSpec
from streamapp_operator.manifest.app import RESTART_ANNOTATION, App
from streamapp_operator.names import config_name, driver_name
from streamapp_operator.render.config import PLAN, TEMPLATE, Credentials
from streamapp_operator.render.executors import plain_template
from streamapp_operator.render.kafka import CLIENT_FILE, kafka_mounts, kafka_volumes
from streamapp_operator.render.meta import ATTEMPT_ANNOTATION, TEMPLATE_ANNOTATION, Object, made, selector
from streamapp_operator.render.pods import (
    BLOCK_PORT,
    CONFIG_DIR,
    CONTAINER_SECURITY,
    LIVE_PORT,
    POD_SECURITY,
    RPC_PORT,
    SCRATCH_MOUNTS,
    SCRATCH_VOLUMES,
    SECRETS_DIR,
    TOLERATIONS,
    WORK_DIR,
    image_of,
    pod_template,
    pull_secrets,
    secrets_volume,
)
from streamapp_operator.render.sizes import driver_size, executor_size
from streamapp_operator.settings import Settings

DRIVER = "driver"
_TERMINATION_LOG = "/dev/termination-log"
_START_SECONDS = 300
"""Seconds for the start of Spark's session; stores are restored after it, while the probes are answered."""
_STOP_SECONDS = 30
"""Seconds in which a stop lets the epoch under way end; the driver gets the number as an option. A user's template may
give more."""


def service(app: App) -> Object:
    """The Service, without an address of its own: it is there for the pod's name, and leads to the live interface."""
    return made(
        app,
        "v1",
        "Service",
        driver_name(app.base),
        DRIVER,
        spec={
            "clusterIP": "None",
            # A driver that restores is not ready, and is the one that people want to ask.
            "publishNotReadyAddresses": True,
            "selector": selector(app.base, DRIVER),
            "ports": [{"name": "live", "port": LIVE_PORT, "targetPort": "live", "protocol": "TCP"}],
        },
    )


def stateful_set(app: App, settings: Settings, credentials: Credentials, replicas: int) -> Object:
    """
    Raises:
        ManifestError: when the sizes of driver or executors cannot be read.
    """
    return made(
        app,
        "apps/v1",
        "StatefulSet",
        driver_name(app.base),
        DRIVER,
        spec={
            "serviceName": driver_name(app.base),
            "replicas": replicas,
            "selector": {"matchLabels": selector(app.base, DRIVER)},
            # The operator takes the old pod away: Kubernetes itself would wait for a broken one to become ready.
            "updateStrategy": {"type": "OnDelete"},
            "podManagementPolicy": "Parallel",
            "template": driver_template(app, settings, credentials),
        },
    )


def driver_template(app: App, settings: Settings, credentials: Credentials) -> Object:
    """The driver's pod, whatever makes it.

    Raises:
        ManifestError: when the sizes of driver or executors cannot be read.
    """
    pod_spec = app.manifest.spec.driver
    size = driver_size(pod_spec.resources if pod_spec else None, settings.driver_resources)
    container: Object = {
        "name": DRIVER,
        "image": image_of(app, settings),
        "imagePullPolicy": settings.image_pull_policy,
        "args": [DRIVER, f"{CONFIG_DIR}/{PLAN}", *_options(app, settings, size.heap, _stop_seconds(pod_spec))],
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "ports": [
            {"name": "live", "containerPort": LIVE_PORT, "protocol": "TCP"},
            {"name": "rpc", "containerPort": RPC_PORT, "protocol": "TCP"},
            {"name": "blocks", "containerPort": BLOCK_PORT, "protocol": "TCP"},
        ],
        "resources": size.resources,
        "securityContext": CONTAINER_SECURITY,
        "startupProbe": _probe("/healthz", every=2, failures=_START_SECONDS // 2),
        "livenessProbe": _probe("/healthz", every=10, failures=6),
        "readinessProbe": _probe("/readyz", every=2, failures=1),
        "terminationMessagePath": _TERMINATION_LOG,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            *SCRATCH_MOUNTS,
            {"name": "config", "mountPath": CONFIG_DIR, "readOnly": True},
            {"name": "credentials", "mountPath": SECRETS_DIR, "readOnly": True},
            *kafka_mounts(app),
        ],
    }
    spec: Object = {
        "serviceAccountName": driver_name(app.base),
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": _STOP_SECONDS,
        "securityContext": POD_SECURITY,
        "tolerations": TOLERATIONS,
        "containers": [container],
        "volumes": [
            *SCRATCH_VOLUMES,
            {"name": "config", "configMap": {"name": config_name(app.base)}},
            secrets_volume(app, "token", "rpc-secret"),
            *kafka_volumes(app),
        ],
        **pull_secrets(settings),
    }
    template = pod_template(
        app, settings, DRIVER, spec, settings.driver_pod_template, pod_spec.pod_template if pod_spec else None
    )
    if app.restart_at:
        template["metadata"]["annotations"][RESTART_ANNOTATION] = app.restart_at
    mark = _fingerprint(app, settings, credentials, template)
    template["metadata"]["annotations"] |= {TEMPLATE_ANNOTATION: mark, ATTEMPT_ANNOTATION: app.own_attempt}
    return template


def _stop_seconds(pod_spec: PodSpec | None) -> int:
    """Seconds that the pod has from the request to stop until it is killed."""
    spec = (pod_spec.pod_template or {} if pod_spec else {}).get("spec") or {}
    seconds = spec.get("terminationGracePeriodSeconds")
    return seconds if isinstance(seconds, int) and seconds > 0 else _STOP_SECONDS


def _options(app: App, settings: Settings, heap: int, stop_seconds: int) -> list[str]:
    executor = executor_size(app, settings)
    options = {
        "owner": app.owner,
        "adopt": app.adopts or None,
        "secrets": SECRETS_DIR,
        "kafka-config": None if app.kafka_login is None else CLIENT_FILE,
        "state-dir": WORK_DIR,
        "stop-seconds": stop_seconds,
        "termination-log": _TERMINATION_LOG,
        "namespace": app.namespace,
        "pod": "$(POD_NAME)",
        "address": "$(POD_IP)",
        "heap": heap,
        "port": LIVE_PORT,
        "rpc-port": RPC_PORT,
        "block-port": BLOCK_PORT,
        "executor-template": f"{CONFIG_DIR}/{TEMPLATE}",
        "executor-image": image_of(app, settings),
        "executor-pull-policy": settings.image_pull_policy,
        "executor-prefix": app.base,
        "executor-processors": executor.processors,
        "executor-cpu": executor.cpu,
        "executor-cpu-limit": executor.cpu_limit,
        "executor-heap": executor.heap,
        "executor-overhead": executor.overhead,
    }
    return [f"--{name}={value}" for name, value in options.items() if value is not None]


def _probe(path: str, every: int, failures: int) -> Object:
    return {
        "httpGet": {"path": path, "port": "live", "scheme": "HTTP"},
        "periodSeconds": every,
        "failureThreshold": failures,
        "timeoutSeconds": 5,
        "successThreshold": 1,
    }


def _fingerprint(app: App, settings: Settings, credentials: Credentials, template: Object) -> str:
    """A fingerprint that changes with everything that a running driver cannot take up. The number of replicas is not
    part of it, nor are the internal topics: they follow from the rest, and another setting of theirs can wait for the
    next start."""
    parts = [
        replace(app.plan, replicas=0, topics=()).to_json(),
        json.dumps(template, sort_keys=True),
        json.dumps(plain_template(app, settings), sort_keys=True),
        hashlib.sha256(credentials.rpc_secret.encode()).hexdigest(),
        *([] if app.kafka_login is None else [app.kafka_login.mark]),
    ]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
