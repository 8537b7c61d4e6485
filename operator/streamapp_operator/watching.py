# SPDX-License-Identifier: Apache-2.0
"""Reflectors for all that belongs to apps. Whatever they see, they say only WHICH app to look at."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from streamapp_operator.cache import APP_KIND, Cache
from streamapp_operator.controller import Controller
from streamapp_operator.kube import Kube
from streamapp_operator.observe import LISTED
from streamapp_operator.reflector import OnChange, Reflector
from streamapp_operator.render.meta import MANAGED
from streamapp_operator.workqueue import AHEAD, Key

LOOK_SECONDS = 0.2


class Watching:
    """
    Args:
        kube: a connection of its own: each watch takes one for as long as it lasts.
        cache: is kept as the cluster is.
        controller: gets the keys.
        namespaces: to watch; none: all of them.
    """

    def __init__(self, kube: Kube, cache: Cache, controller: Controller, namespaces: Sequence[str]) -> None:
        self._controller = controller
        kube.on_answer = controller.metrics.request
        kinds: dict[str, tuple[str, OnChange]] = {
            APP_KIND: ("", self._app_changed),
            **dict.fromkeys((*LISTED, "Pod"), (MANAGED, self._child_changed)),
        }
        self._reflectors = [
            Reflector(kube, cache, kind, namespace, selector, on_change)
            for namespace in namespaces or (None,)
            for kind, (selector, on_change) in kinds.items()
        ]
        self._threads = [
            threading.Thread(target=reflector.run, name=f"watch of {reflector.what}", daemon=True)
            for reflector in self._reflectors
        ]

    def run(self, stop: threading.Event) -> None:
        """Watches, and lets the controller work once all there is has been seen; until `stop` is set."""
        for thread in self._threads:
            thread.start()
        while not all(reflector.listed.is_set() for reflector in self._reflectors):
            if stop.wait(LOOK_SECONDS):
                return
        self._controller.start(*self._threads)
        stop.wait()
        self._controller.stop()

    def _app_changed(self, key: Key, body: Mapping[str, Any] | None) -> None:
        self._controller.metrics.apps.see(key, body)
        # Whoever has changed an app waits for an answer; whatever else is to be looked at, does not.
        self._controller.queue.add(key, AHEAD if body is not None and _is_new(body) else 0.0)

    def _child_changed(self, key: Key, body: Mapping[str, Any] | None) -> None:
        self._controller.queue.add(key)


def _is_new(body: Mapping[str, Any]) -> bool:
    """Whether its status does not speak of it as it is now."""
    seen = (body.get("status") or {}).get("observedGeneration")
    return bool(body["metadata"]["generation"] != seen)
