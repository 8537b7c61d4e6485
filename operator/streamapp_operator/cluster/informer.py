# SPDX-License-Identifier: Apache-2.0
"""Keeps the cache as the cluster is: by the events that a watch brings, and by lists.

A list is the truth: what it has not is gone. So whatever happens to events on their way (they are lost, come twice, or
late), the cache is right again after RESYNC_SECONDS.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from streamapp_operator.cluster.cache import Cache, place_of
from streamapp_operator.cluster.kube import Kube, KubeError
from streamapp_operator.observe.observation import APP_KIND, LISTED
from streamapp_operator.render.meta import MANAGED, Object
from streamapp_operator.workqueue import Key

RESYNC_SECONDS = 30.0
SELECTORS: Mapping[str, str] = {APP_KIND: "", **dict.fromkeys((*LISTED, "Pod"), MANAGED)}
"""The kinds that are kept, each with the labels of those objects that are."""
DELETED = "DELETED"
"""Type of the event that an object is gone, as the API server has it."""
log = logging.getLogger("streamapp.operator")

OnChange = Callable[[Key, Object | None], None]
"""Told which app a change is about, and the object that has changed; None when it is gone."""


class Informer:
    """May be used from any thread.

    Args:
        kube: is asked for lists.
        cache: is kept.
        namespaces: where the objects are; none: in all.
        on_change: told of each change after it is in the cache.
    """

    def __init__(self, kube: Kube, cache: Cache, namespaces: Sequence[str], on_change: OnChange) -> None:
        self._kube, self._cache, self._on_change = kube, cache, on_change
        self._namespaces: tuple[str | None, ...] = tuple(namespaces) or (None,)
        for kind in SELECTORS:
            cache.keep_kind(kind)

    def happened(self, event: str, item: Object) -> None:
        """An event of a watch: what has happened, and the object as it is, or last was."""
        if event == DELETED:
            self._tell(item["metadata"]["namespace"], self._cache.remove(place_of(item)), None)
        else:
            self._put(item)

    def resync(self) -> None:
        """Makes the cache what lists say.

        Raises:
            KubeError: when the API server does not answer.
        """
        for namespace in self._namespaces:
            for kind, selector in SELECTORS.items():
                self._list(kind, namespace, selector)

    def keep(self, stop: threading.Event, seconds: float = RESYNC_SECONDS) -> None:
        """Resyncs so often until `stop` is set."""
        said = ""
        while not stop.wait(seconds):
            try:
                self.resync()
                said = ""
            except KubeError as error:
                if str(error) != said:
                    said = str(error)
                    log.warning("cannot list: %s", said)

    def _list(self, kind: str, namespace: str | None, selector: str) -> None:
        # What changes while it is listed is known by an event that may be newer than the list.
        before = self._cache.versions(kind, namespace)
        there = set()
        for item in self._kube.pages(kind, namespace, selector):
            there.add(place := place_of(item))
            if self._cache.version(place) == before.get(place):
                self._put(item)
        for place, version in before.items():
            if place not in there and self._cache.version(place) == version:
                self._tell(place[1], self._cache.remove(place), None)

    def _put(self, item: Object) -> None:
        self._tell(item["metadata"]["namespace"], self._cache.put(item), item)

    def _tell(self, namespace: str, apps: set[str], item: Object | None) -> None:
        for app in apps:
            self._on_change((namespace, app), item)
