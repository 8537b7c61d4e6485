# SPDX-License-Identifier: Apache-2.0
"""Keeps one kind of objects in the cache as the cluster has it: it lists them, watches from there, and begins anew when
the watch ends, whatever ended it.

A list is the truth: what it has not is gone. So whatever happens to events on their way (they are lost, come twice, or
late, or the version that the watch begins at is gone: 410), the cache is right again after RELIST_SECONDS.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from time import monotonic

from streamapp_operator.cache import Cache, Place, place_of
from streamapp_operator.kube import Kube, KubeError
from streamapp_operator.render.meta import Object
from streamapp_operator.workqueue import Key

RELIST_SECONDS = 30
"""A watch is ended after so long at most."""
FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 0.5, 5.0
GONE = 410
log = logging.getLogger("streamapp.operator")

OnChange = Callable[[Key, Object | None], None]
"""Told which app a change is about, and the object that has changed; None when it is gone."""


class Reflector:
    """
    Args:
        kube: a connection for watches, which take one each for as long as they last.
        cache: is kept.
        kind: of the objects.
        namespace: where they are; None: in all.
        selector: labels that they have; empty: all of the kind.
        on_change: told of each change after it is in the cache.
        relist: seconds after which a watch is ended at the latest.
    """

    def __init__(
        self,
        kube: Kube,
        cache: Cache,
        kind: str,
        namespace: str | None,
        selector: str,
        on_change: OnChange,
        relist: int = RELIST_SECONDS,
    ) -> None:
        self._kube, self._cache, self._on_change = kube, cache, on_change
        self._kind, self._namespace, self._selector = kind, namespace, selector
        self._relist = relist
        self._stopping = threading.Event()
        self.listed = threading.Event()
        """Set once everything was listed for the first time."""
        self.what = f"{kind} in {namespace}" if namespace else kind
        cache.keep_kind(kind)

    def run(self) -> None:
        """Until `stop`."""
        backoff, said = FIRST_BACKOFF_SECONDS, ""
        while not self._stopping.is_set():
            try:
                self.list_and_watch()
                backoff, said = FIRST_BACKOFF_SECONDS, ""
            except KubeError as error:
                if error.code != GONE and str(error) != said:
                    said = str(error)
                    log.warning("cannot watch %s: %s", self.what, said)
                # Not all at the same moment: there is one for each kind.
                self._stopping.wait(backoff * random.uniform(0.5, 1))
                backoff = min(2 * backoff, LONGEST_BACKOFF_SECONDS)

    def stop(self) -> None:
        """What is read is read to its end, which may take as long as a watch."""
        self._stopping.set()

    def list_and_watch(self) -> None:
        """Once, until the watch ends in order.

        Raises:
            KubeError: when it does not.
        """
        version = self._list()
        self.listed.set()
        # Not all at the same moment, and never for longer, though what comes be endless.
        seconds = max(1, round(self._relist * random.uniform(0.7, 1)))
        deadline = monotonic() + seconds + 1
        for happened, item in self._kube.watch(self._kind, self._namespace, self._selector, version, seconds):
            if happened == "DELETED":
                self._remove(place_of(item))
            else:
                self._put(item)
            if monotonic() > deadline or self._stopping.is_set():
                return

    def _list(self) -> str:
        """Makes the cache what a list says; returns the version that the list is of."""
        there: set[Place] = set()
        version = ""
        for items, page_version in self._kube.pages(self._kind, self._namespace, self._selector):
            version = page_version
            for item in items:
                there.add(place_of(item))
                self._put(item)
        for place in self._cache.places(self._kind, self._namespace):
            if place not in there:
                self._remove(place)
        return version

    def _put(self, item: Object) -> None:
        for app in self._cache.put(item):
            self._on_change((item["metadata"]["namespace"], app), item)

    def _remove(self, place: Place) -> None:
        for app in self._cache.remove(place):
            self._on_change((place[1], app), None)
