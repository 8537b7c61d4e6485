# SPDX-License-Identifier: Apache-2.0
"""Keeps the cache up to date, by the events of watches and by lists.

Each kind of each namespace is a source of its own: it is listed, then watched, and when its watch ends, it is listed
and watched anew. A watch resumes by itself where it was, so lists are rare. A list is the truth: an object that is not
in it is gone. So whatever happens to events on their way (they are lost, come twice, or late), the cache is right again
after RESYNC_SECONDS.

A namespace that is missing, or where the operator has no rights (both are answered with 403), is asked again with
growing pauses, and the others do not wait for it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from streamapp_operator.backoff import Backoff
from streamapp_operator.cluster.cache import Cache, place_of
from streamapp_operator.cluster.errors import KubeError
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.observe.observation import APP_KIND, LISTED
from streamapp_operator.render.meta import MANAGED, Object
from streamapp_operator.workqueue import Key

RESYNC_SECONDS = 600.0
"""Seconds after which each source is listed anew, one after the other."""
TRY_SECONDS = 1.0
"""Seconds at least between two looks for sources that are not in the cache yet, or whose watch has ended."""
LONGEST_PAUSE_SECONDS = 60.0
"""Seconds at most between two tries at a namespace that the operator may not look into."""
FORBIDDEN = 403
SELECTORS: Mapping[str, str] = {APP_KIND: "", **dict.fromkeys((*LISTED, "Pod"), MANAGED)}
"""The kinds that are kept, each with the label selector of its objects."""
DELETED = "DELETED"
"""The API server's type of the event that an object is gone."""
log = logging.getLogger("streamapp.operator")

OnChange = Callable[[Key, Object | None], None]
"""Receives the app that a change is about, and the object that has changed; None when it is gone."""
OnForbidden = Callable[[str], None]
"""Receives a sentence about a namespace that the operator may not look into."""
Source = tuple[str | None, str]
"""Namespace (None: all) and kind."""


class Informer:
    """Lists and takes in events. May be used from any thread.

    Args:
        kube: the API server, which is asked for lists.
        cache: the cache to keep up to date.
        namespaces: where the objects are; none: in all.
        on_change: called for each change after it is in the cache.
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
        self._listed: set[Source] = set()
        self._forbidden: set[Source] = set()
        self._backoff: Backoff[Source] = Backoff(TRY_SECONDS, LONGEST_PAUSE_SECONDS, clock)
        for kind in SELECTORS:
            cache.keep_kind(kind)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources, each of which is listed and watched by itself."""
        return tuple((namespace, kind) for namespace in self._namespaces for kind in SELECTORS)

    @property
    def unwatched(self) -> int:
        """The number of namespaces that are missing, or forbidden to us."""
        return len({namespace for namespace, _ in self._forbidden})

    def has_synced(self, source: Source) -> bool:
        """Whether the source has been listed, and not been invalidated since."""
        return source in self._listed

    def invalidate(self, source: Source) -> None:
        """Has the source listed anew, as its events may not arrive any more, or not all of them."""
        self._listed.discard(source)

    def happened(self, event: str, item: Object) -> None:
        """Takes in an event of a watch: its type, and the object as it is, or last was."""
        if event == DELETED:
            self._tell(item["metadata"]["namespace"], self._cache.remove(place_of(item)), None)
        else:
            self._put(item)

    def resync(self, sources: Sequence[Source] | None = None) -> None:
        """Lists each source by itself, and corrects the cache by the lists.

        Args:
            sources: those to list; None: all of them.

        Raises:
            KubeError: when the API server does not answer for one of them; the others are listed.
        """
        failed: KubeError | None = None
        for source in self.sources if sources is None else sources:
            if self._backoff.reason(source) is not None or (source[0], APP_KIND) in self._forbidden - {source}:
                continue
            try:
                self._list(*source)
            except KubeError as error:
                if error.code == FORBIDDEN:
                    self._refused(source, str(error))
                else:
                    failed = error
        if failed is not None:
            raise failed

    def keep(self, stop: threading.Event, seconds: float = RESYNC_SECONDS) -> None:
        """Lists each source every `seconds` until `stop` is set, one after the other, and at once a source that is not
        known yet."""
        logged, start = "", self._clock()
        due = {source: start + seconds * (i + 1) / len(self.sources) for i, source in enumerate(self.sources)}
        while not stop.wait(min(seconds, TRY_SECONDS)):
            now = self._clock()
            old = [source for source, at in due.items() if at <= now or not self.has_synced(source)]
            due |= {source: now + seconds for source in old if due[source] <= now}
            try:
                self.resync(old)
                logged = ""
            except KubeError as error:
                if str(error) != logged:
                    logged = str(error)
                    log.warning("cannot list: %s", logged)

    def _refused(self, source: Source, why: str) -> None:
        """Notes that a source is forbidden. Its objects stay in the cache: rights may come back, and no action rests on
        the cache alone."""
        namespace = source[0]
        is_news = all(place != namespace for place, _ in self._forbidden)
        self._listed.discard(source)
        self._backoff.failed(source, why)
        self._forbidden.add(source)
        if is_news:
            where = "the cluster" if namespace is None else f"namespace {namespace}"
            self._on_forbidden(
                f"{where} is not watched: it is missing, or the operator has no rights there; make it and install "
                f"the chart's rights, or take it out of watch.namespaces ({why})"
            )

    def _list(self, namespace: str | None, kind: str) -> None:
        # An event may bring a change during the list, and be newer than the list.
        before = self._cache.versions(kind, namespace)
        there = set()
        for item in self._kube.pages(kind, namespace, SELECTORS[kind]):
            there.add(place := place_of(item))
            if self._cache.version(place) == before.get(place):
                self._put(item)
        for place, version in before.items():
            if place not in there and self._cache.version(place) == version:
                self._tell(place[1], self._cache.remove(place), None)
        self._answered((namespace, kind))

    def _answered(self, source: Source) -> None:
        self._backoff.answered(source)
        self._listed.add(source)
        if source in self._forbidden:
            self._forbidden.discard(source)
            if all(namespace != source[0] for namespace, _ in self._forbidden):
                log.warning("namespace %s is watched again", source[0])

    def _put(self, item: Object) -> None:
        self._tell(item["metadata"]["namespace"], self._cache.put(item), item)

    def _tell(self, namespace: str, apps: set[str], item: Object | None) -> None:
        for app in apps:
            self._on_change((namespace, app), item)
