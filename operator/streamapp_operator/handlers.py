# SPDX-License-Identifier: Apache-2.0
"""The only file that knows kopf. It watches; whatever it sees, it says only WHICH app to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import kopf

from streamapp_operator.controller import Controller
from streamapp_operator.crd import GROUP, PLURAL, VERSION
from streamapp_operator.render.meta import APP_ANNOTATION, MANAGER

_OURS = {"app.kubernetes.io/managed-by": MANAGER}
WATCHED = (
    ("", "v1", "pods"),
    ("", "v1", "configmaps"),
    ("", "v1", "services"),
    ("", "v1", "serviceaccounts"),
    ("apps", "v1", "controllerrevisions"),
    ("apps", "v1", "statefulsets"),
    ("batch", "v1", "cronjobs"),
    ("batch", "v1", "jobs"),
    ("networking.k8s.io", "v1", "networkpolicies"),
    ("policy", "v1", "poddisruptionbudgets"),
    ("rbac.authorization.k8s.io", "v1", "roles"),
    ("rbac.authorization.k8s.io", "v1", "rolebindings"),
)
"""Kinds whose changes wake us up. Secrets are not watched: they are looked at in each round."""


def watch(controller: Controller, namespaces: Sequence[str]) -> None:
    """Watches until SIGTERM or SIGINT.

    Args:
        controller: gets the keys.
        namespaces: to watch; none: all of them.
    """
    registry = kopf.OperatorRegistry()
    settings = kopf.OperatorSettings()
    # Nothing may be written by the framework: what is written is decided in one place.
    settings.posting.enabled = False
    # Would need to see all namespaces and all definitions of the cluster.
    settings.scanning.disabled = True
    settings.watching.server_timeout = 300

    async def app(
        namespace: str | None, name: str | None, type: str | None, body: Mapping[str, Any], **_: Any
    ) -> None:
        if namespace and name:
            controller.metrics.apps.see((namespace, name), None if type == "DELETED" else dict(body))
            controller.queue.add((namespace, name))

    async def child(namespace: str | None, annotations: Mapping[str, str], **_: Any) -> None:
        if namespace and APP_ANNOTATION in annotations:
            controller.queue.add((namespace, annotations[APP_ANNOTATION]))

    @kopf.on.login(registry=registry)
    def login(**known: Any) -> kopf.ConnectionInfo | None:
        return kopf.login_via_client(**known)

    kopf.on.event(GROUP, VERSION, PLURAL, id="app", registry=registry)(app)
    for group, version, plural in WATCHED:
        kopf.on.event(group, version, plural, labels=_OURS, id=plural, registry=registry)(child)

    @kopf.on.startup(registry=registry)
    async def start(**_: Any) -> None:
        controller.start()

    @kopf.on.cleanup(registry=registry)
    async def stop(**_: Any) -> None:
        controller.stop()

    kopf.run(
        registry=registry,
        settings=settings,
        standalone=True,
        clusterwide=not namespaces,
        namespaces=list(namespaces),
    )
