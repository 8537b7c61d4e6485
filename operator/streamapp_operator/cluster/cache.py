# SPDX-License-Identifier: Apache-2.0
"""Objects of the cluster as they were last seen, so that a look at an app asks the API server for next to nothing.

A cached object may be a moment old, or after a lost event as old as the last list. So the cache shows only THAT there
is something to do; an action rests on a look at the API server itself (`reconcile`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from streamapp_operator.cluster.kube import Kube
from streamapp_operator.observe.observation import APP_KIND
from streamapp_operator.observe.observer import Objects
from streamapp_operator.render import STARTERS
from streamapp_operator.render.meta import APP_ANNOTATION, INSTANCE_LABEL, Object, labels_of

Place = tuple[str, str, str]
"""Kind, namespace, name."""
ASKED_SECONDS = 15.0
"""Seconds for which an object of a kind that is not kept is not asked for again."""


@dataclass(frozen=True, slots=True)
class _Kept:
    """An object as bytes: they take a fifth of the memory, and each reader gets a copy of its own."""

    version: str
    instance: str
    app: str
    """The name of the app that the object is or belongs to; empty when it names none."""
    content: bytes


class Cache:
    """The objects of some kinds. May be used from any thread.

    Args:
        kube: for kinds that are not kept: Secrets, which the operator has no right to list.
        clock: seconds that never go back.
    """

    def __init__(self, kube: Kube, clock: Callable[[], float] = monotonic) -> None:
        self._kube, self._clock = kube, clock
        self._asked: dict[Place, tuple[float, bytes]] = {}
        """Objects of kinds that are not kept, as bytes, and when each was asked for; the oldest come first."""
        self._lock = threading.Lock()
        self._kept: dict[Place, _Kept] = {}
        self._names: dict[tuple[str, str, str], set[str]] = {}
        """Names by kind, namespace and instance, which is the app."""
        self._kinds: set[str] = set()

    # --- reading --------------------------------------------------------------------------------------------

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """The object; None when there is none. One of a kind that is not kept is at most ASKED_SECONDS old.

        Raises:
            KubeError: when it is not of a kept kind, and the API server does not answer.
        """
        if kind not in self._kinds:
            return self._ask((kind, namespace, name))
        with self._lock:
            kept = self._kept.get((kind, namespace, name))
        return None if kept is None else _read(kept.content)

    def _ask(self, place: Place) -> Object | None:
        """The object, as the API server has it or had it a moment ago. If there is none, the next one asks again."""
        now = self._clock()
        with self._lock:
            while self._asked and now - self._asked[first := next(iter(self._asked))][0] >= ASKED_SECONDS:
                del self._asked[first]
            _, content = self._asked.get(place, (now, None))
        if content is not None:
            return _read(content)
        found = self._kube.get(*place)
        if found is not None:
            with self._lock:
                self._asked.pop(place, None)  # else it would keep its place in the order
                self._asked[place] = now, _written(found)
        return found

    def list(self, kind: str, namespace: str, selector: str) -> list[Object]:
        """The objects with these labels; the instance must be among the labels."""
        wanted = labels_of(selector)
        with self._lock:
            names = self._names.get((kind, namespace, wanted[INSTANCE_LABEL]), ())
            found = [self._kept[kind, namespace, name].content for name in sorted(names)]
        return [item for item in map(_read, found) if wanted.items() <= item["metadata"]["labels"].items()]

    def lists(self, kinds: Collection[str], namespace: str, selector: str) -> Mapping[str, Sequence[Object]]:
        """The same for each of these kinds."""
        return {kind: self.list(kind, namespace, selector) for kind in kinds}

    def each(self, kind: str, namespace: str) -> Iterator[Object]:
        """All objects that are kept of a kind in a namespace, one by one."""
        with self._lock:
            found = [kept.content for place, kept in self._kept.items() if place[:2] == (kind, namespace)]
        yield from map(_read, found)

    def namespaces(self, kind: str) -> set[str]:
        """The namespaces with objects of a kind."""
        with self._lock:
            return {namespace for found, namespace, _ in self._kept if found == kind}

    # --- what the informer does -----------------------------------------------------------------------------

    def keep_kind(self, kind: str) -> None:
        """Keeps objects of that kind from now on."""
        self._kinds.add(kind)

    def put(self, item: Object) -> set[str]:
        """Keeps the object. Returns the apps that this is news for: the one that it belongs to, and the one that it
        belonged to before."""
        place, version = place_of(item), item["metadata"]["resourceVersion"]
        with self._lock:
            before = self._kept.get(place)
        if before is not None and before.version == version:
            return set()
        kept = _kept(item)
        with self._lock:
            self._forget(place)
            self._kept[place] = kept
            self._names.setdefault((*place[:2], kept.instance), set()).add(place[2])
        return {kept.app, before.app if before is not None else ""} - {""}

    def remove(self, place: Place) -> set[str]:
        """Forgets the object. Returns the app that this is news for, if there is one."""
        with self._lock:
            before = self._forget(place)
        return {before.app} - {""} if before is not None else set()

    def version(self, place: Place) -> str | None:
        """The version of the object that is kept there; None when there is none."""
        with self._lock:
            kept = self._kept.get(place)
        return None if kept is None else kept.version

    def versions(self, kind: str, namespace: str | None) -> dict[Place, str]:
        """The versions of all objects that are kept of a kind, in one namespace or in all."""
        with self._lock:
            found = self._kept.items()
            return {place: kept.version for place, kept in found if place[0] == kind and namespace in (None, place[1])}

    def _forget(self, place: Place) -> _Kept | None:
        kept = self._kept.pop(place, None)
        if kept is not None:
            key = (*place[:2], kept.instance)
            self._names[key].discard(place[2])
            if not self._names[key]:
                del self._names[key]
        return kept


class PartlyFresh:
    """A reader that asks the API server for objects of some kinds, and the cache for the others.

    Args:
        cache: has the others.
        kube: is asked.
        fresh: kinds that the API server is asked for.
    """

    def __init__(self, cache: Objects, kube: Kube, fresh: Collection[str]) -> None:
        self._cache, self._kube, self._fresh = cache, kube, fresh

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        return (self._kube if kind in self._fresh else self._cache).get(kind, namespace, name)

    def lists(self, kinds: Collection[str], namespace: str, selector: str) -> Mapping[str, Sequence[Object]]:
        fresh = self._kube.lists([kind for kind in kinds if kind in self._fresh], namespace, selector)
        kept = self._cache.lists([kind for kind in kinds if kind not in self._fresh], namespace, selector)
        return {**fresh, **kept}


def place_of(item: Object) -> Place:
    metadata = item["metadata"]
    return item["kind"], metadata["namespace"], metadata["name"]


def _kept(item: Object) -> _Kept:
    metadata = item["metadata"]
    is_app = item["kind"] == APP_KIND
    # `managedFields` is needed for few kinds only, and is a third of an object.
    if not is_app and item["kind"] not in STARTERS and "managedFields" in metadata:
        item = {**item, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}
    return _Kept(
        version=metadata["resourceVersion"],
        instance=metadata.get("labels", {}).get(INSTANCE_LABEL, ""),
        app=metadata["name"] if is_app else metadata.get("annotations", {}).get(APP_ANNOTATION, ""),
        content=_written(item),
    )


def _written(item: Object) -> bytes:
    return json.dumps(item, separators=(",", ":")).encode()


def _read(content: bytes) -> Object:
    found: Object = json.loads(content)
    return found
