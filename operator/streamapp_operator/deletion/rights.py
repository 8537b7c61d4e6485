# SPDX-License-Identifier: Apache-2.0
"""Keeps the operator's rights in a namespace while an app there waits for it.

A user who deletes a namespace deletes the RoleBinding in it by which the operator acts there, often before the apps. An
app that waits for the operator would then wait for ever, and the namespace with it. So the RoleBinding carries our
finalizer as long as an app of the namespace does:

    1  the RoleBinding gets the finalizer      a crash here: the next look takes it away, if no app follows
    2  the app gets the finalizer
    3  the app is let go
    4  the RoleBinding is let go               a crash here: the next look does it

A RoleBinding that is deleted while its namespace stays, as by an uninstall, is let go at once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from streamapp_operator.cluster.errors import KubeError
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.cluster.lease import NotHolder
from streamapp_operator.deletion.finalizer import set_finalizer
from streamapp_operator.observe.remains import FINALIZER, has_finalizer, is_deleted
from streamapp_operator.render.meta import Object

KIND = "RoleBinding"
LOOK_SECONDS = 30.0
log = logging.getLogger("streamapp.operator")


@dataclass
class Rights:
    """The operator's rights in namespaces. May be used from any thread.

    Args:
        binding: name of the RoleBinding in each namespace; empty: the operator's rights are in none.
    """

    binding: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    """Held so that no app gets its finalizer while the rights are let go because no app has one."""

    def set_finalizer(self, kube: Kube, body: Object, on: bool) -> None:
        """Sets the finalizer of the app, or takes it away; and that of the rights with it.

        Raises:
            KubeError: code 409 when one of them is changed at this very moment.
        """
        namespace = body["metadata"]["namespace"]
        with self._lock:
            if on:
                self._set(kube, self._find(kube, namespace), True)
            set_finalizer(kube, body, on)
            if not on:
                self._keep(kube, namespace)

    def keep(self, kube: Kube, namespace: str, apps: Iterable[Object]) -> None:
        """Sets the finalizer of the rights if an app has one, and takes it away otherwise.

        Args:
            kube: the connection for all reads and writes.
            namespace: of the rights.
            apps: of the namespace as they were a moment ago. They are read anew only if the rights do not agree with
                them.
        """
        found = self._find(kube, namespace)
        if found is None or (not is_deleted(found) and has_finalizer(found) is any(map(has_finalizer, apps))):
            return
        with self._lock:
            self._keep(kube, namespace)

    def release(self, kube: Kube, namespaces: Sequence[str]) -> None:
        """Corrects the rights. Must be called at the end of the process: an uninstall of the operator deletes its
        rights as well."""
        for namespace in namespaces:
            try:
                with self._lock:
                    self._keep(kube, namespace)
            except (KubeError, NotHolder) as error:
                log.warning(
                    "RoleBinding %s of namespace %s may have a wrong finalizer: %s", self.binding, namespace, error
                )

    def _keep(self, kube: Kube, namespace: str) -> None:
        found = self._find(kube, namespace)
        if found is None:
            return
        stays = is_deleted(found) and not kube.is_ending(namespace)
        self._set(kube, found, not stays and any(map(has_finalizer, kube.list("StreamApp", namespace))))

    def _find(self, kube: Kube, namespace: str) -> Object | None:
        return kube.get(KIND, namespace, self.binding) if self.binding else None

    def _set(self, kube: Kube, found: Object | None, on: bool) -> None:
        # An object that is being deleted cannot get another finalizer.
        if found is None or has_finalizer(found) is on or (on and is_deleted(found)):
            return
        others = [name for name in found["metadata"].get("finalizers", ()) if name != FINALIZER]
        kube.set_finalizers({**found, "kind": KIND}, [*others, FINALIZER] if on else others)
