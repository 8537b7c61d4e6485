# SPDX-License-Identifier: Apache-2.0
"""Keeps the cache as the cluster is: by the events that a watch brings, and by lists.

A list is the truth: what it has not is gone. So whatever happens to events on their way (they are lost, come twice, or
late), the cache is right again after RESYNC_SECONDS.

Each namespace stands for itself. One that is missing, or where the operator has no rights (both are answered with 403),
is asked again with growing pauses, and the others do not wait for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from streamapp_operator.backoff import Backoff
from streamapp_operator.cluster.cache import Cache, place_of
from streamapp_operator.cluster.kube import Kube, KubeError
from streamapp_operator.observe.observation import APP_KIND, LISTED
from streamapp_operator.render.meta import MANAGED, Object
from streamapp_operator.workqueue import Key

RESYNC_SECONDS = 30.0
TRY_SECONDS = 1.0
"""So often, or less, a namespace is listed that is not in the cache yet, or whose watch has ended."""
LONGEST_PAUSE_SECONDS = 60.0
"""Between two tries at a namespace that the operator may not look into."""
FORBIDDEN = 403
SELECTORS: Mapping[str, str] = {APP_KIND: "", **dict.fromkeys((*LISTED, "Pod"), MANAGED)}
"""The kinds that are kept, each with the labels of those objects that are."""
DELETED = "DELETED"
"""Type of the event that an object is gone, as the API server has it."""
log = logging.getLogger("streamapp.operator")

OnChange = Callable[[Key, Object | None], None]
"""Told which app a change is about, and the object that has changed; None when it is gone."""
OnForbidden = Callable[[str], None]
"""Gets a sentence about a namespace that the operator may not look into."""


class Informer:
    """May be used from any thread.

    Args:
        kube: is asked for lists.
        cache: is kept.
        namespaces: where the objects are; none: in all.
        on_change: told of each change after it is in the cache.
        on_forbidden: called once when a namespace is found to be missing or forbidden.
        clock: seconds that never go back.
    """

    def __init__(
        self,
        kube: Kube,
        cache: Cache,
        namespaces: Sequence[str],
        on_change: OnChange,
        on_forbidden: OnForbidden = log.warning,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kube, self._cache, self._on_change, self._on_forbidden = kube, cache, on_change, on_forbidden
        self._clock = clock
        self._namespaces: tuple[str | None, ...] = tuple(namespaces) or (None,)
        self._listed: set[str | None] = set()
        self._forbidden: set[str | None] = set()
        self._backoff: Backoff[str | None] = Backoff(TRY_SECONDS, LONGEST_PAUSE_SECONDS, clock)
        for kind in SELECTORS:
            cache.keep_kind(kind)

    @property
    def namespaces(self) -> tuple[str | None, ...]:
        """Where the objects are; None: in all namespaces."""
        return self._namespaces

    @property
    def unwatched(self) -> int:
        """How many of the namespaces are missing, or forbidden to us."""
        return len(self._forbidden)

    def knows(self, namespace: str | None) -> bool:
        """Whether what is there has been listed, and nobody doubts it."""
        return namespace in self._listed

    def doubt(self, namespace: str | None) -> None:
        """Nothing is heard from there any more: it is listed anew before it is watched again."""
        self._listed.discard(namespace)

    def happened(self, event: str, item: Object) -> None:
        """An event of a watch: what has happened, and the object as it is, or last was."""
        if event == DELETED:
            self._tell(item["metadata"]["namespace"], self._cache.remove(place_of(item)), None)
        else:
            self._put(item)

    def resync(self, only_unknown: bool = False) -> None:
        """Makes the cache what lists say, for each namespace by itself.

        Args:
            only_unknown: leaves those alone that are known.

        Raises:
            KubeError: when the API server does not answer for one of them; the others are listed.
        """
        failed: KubeError | None = None
        for namespace in self._namespaces:
            if (only_unknown and self.knows(namespace)) or self._backoff.reason(namespace) is not None:
                continue
            try:
                self._list_all(namespace)
            except KubeError as error:
                if error.code == FORBIDDEN:
                    self._refused(namespace, str(error))
                else:
                    failed = error
        if failed is not None:
            raise failed

    def keep(self, stop: threading.Event, seconds: float = RESYNC_SECONDS) -> None:
        """Resyncs so often until `stop` is set, and sooner what is not known."""
        said, due = "", self._clock() + seconds
        while not stop.wait(min(seconds, TRY_SECONDS)):
            everything = self._clock() >= due
            try:
                self.resync(only_unknown=not everything)
                said = ""
            except KubeError as error:
                if str(error) != said:
                    said = str(error)
                    log.warning("cannot list: %s", said)
            due = self._clock() + seconds if everything else due

    def _list_all(self, namespace: str | None) -> None:
        for kind, selector in SELECTORS.items():
            self._list(kind, namespace, selector)
        self._backoff.answered(namespace)
        self._listed.add(namespace)
        if namespace in self._forbidden:
            self._forbidden.discard(namespace)
            log.warning("namespace %s is watched again", namespace)

    def _refused(self, namespace: str | None, why: str) -> None:
        """What is in the cache of it stays: rights may come back, and nothing is done by the cache alone."""
        self._listed.discard(namespace)
        self._backoff.failed(namespace, why)
        if namespace not in self._forbidden:
            self._forbidden.add(namespace)
            where = "the cluster" if namespace is None else f"namespace {namespace}"
            self._on_forbidden(
                f"{where} is not watched: it is missing, or the operator has no rights there; make it and install "
                f"the chart's rights, or take it out of watch.namespaces ({why})"
            )

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
