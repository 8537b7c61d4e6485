# SPDX-License-Identifier: Apache-2.0
"""The operator's last act when its own namespace is deleted: it lets the apps there go.

Whoever deletes a namespace deletes the operator in it, often before the apps. One that waits for the operator would
then wait for ever, and the namespace with it.
"""

from __future__ import annotations

import logging

from streamapp_operator.deletion import is_held
from streamapp_operator.farewell import hold
from streamapp_operator.kube import Kube, KubeError
from streamapp_operator.lease import NotHolder

log = logging.getLogger("streamapp.operator")


def leave(kube: Kube, namespace: str) -> None:
    """To be called at the end of the process. Does nothing where the namespace is to stay."""
    try:
        if not kube.is_ending(namespace):
            return
        for body in kube.list("StreamApp", namespace):
            if is_held(body):
                hold(kube, body, False)
                name = body["metadata"]["name"]
                log.warning("%s/%s: its internal topics are left, as the namespace goes", namespace, name)
    except (KubeError, NotHolder) as error:
        log.warning("apps of namespace %s may be held up: %s", namespace, error)
