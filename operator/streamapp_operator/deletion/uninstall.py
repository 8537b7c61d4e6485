# SPDX-License-Identifier: Apache-2.0
"""The operator's last act when its own namespace is deleted: it lets the apps there go.

A user who deletes a namespace deletes the operator in it, often before the apps. One that waits for the operator would
then wait for ever, and the namespace with it.
"""

from __future__ import annotations

import logging

from streamapp_operator.cluster.errors import KubeError
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.cluster.lease import NotHolder
from streamapp_operator.deletion.finalizer import set_finalizer
from streamapp_operator.observe.remains import has_finalizer
from streamapp_operator.render.meta import Object

TRIES = 5
"""Each try reads the app anew: somebody may write to it at that very moment."""
log = logging.getLogger("streamapp.operator")


def release_apps(kube: Kube, namespace: str) -> None:
    """Lets the apps go. Must be called at the end of the process, when nothing else works on apps any more: that would
    hold them again.

    Does nothing where the namespace is to stay.
    """
    try:
        if not kube.is_ending(namespace):
            return
        held = [body for body in kube.list("StreamApp", namespace) if has_finalizer(body)]
    except KubeError as error:
        log.warning("the finalizer of apps of namespace %s may hold them: %s", namespace, error)
        return
    for body in held:
        name = f"{namespace}/{body['metadata']['name']}"
        try:
            _let_go(kube, body)
        except (KubeError, NotHolder) as error:
            log.warning("%s: its finalizer may hold it: %s", name, error)
        else:
            log.warning("%s: its internal topics are left, as the namespace goes", name)


def _let_go(kube: Kube, body: Object) -> None:
    for left in reversed(range(TRIES)):
        try:
            set_finalizer(kube, body, False)
            return
        except KubeError as error:
            if error.code != 409 or not left:
                raise
