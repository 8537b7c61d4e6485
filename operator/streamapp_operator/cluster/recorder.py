# SPDX-License-Identifier: Apache-2.0
"""Writes events, as Kubernetes' own recorder does: one that has been written before is counted up. Where ever more
messages about an object have the same reason, one event stands for them all."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from streamapp_operator.cluster.errors import KubeError
from streamapp_operator.cluster.kube import Kube
from streamapp_operator.render.meta import MANAGER, Object

SIMILAR = 10
"""So many events that differ in their messages alone are written each by itself; the next ones are counted together."""
SIMILAR_SECONDS = 600.0
"""Seconds without a new message after which they are written each by itself again."""
REMEMBERED = 4096
"""The number of events, and of objects with a reason, that are remembered: the latest. The cluster itself keeps events
for an hour."""
_TOGETHER = "(combined from similar events): "
_Reason = tuple[str, ...]
"""The object, the type and the reason of an event."""
_Words = tuple[_Reason, str]


@dataclass
class _Recorded:
    name: str
    count: int


@dataclass
class _Similar:
    words: set[str]
    at: float


@dataclass
class Recorder:
    """Writes events. May be used from any thread. Its memory is lost with the process: then an event is written anew.

    Args:
        clock: seconds that never go back.
    """

    clock: Callable[[], float] = monotonic
    _recorded: OrderedDict[_Words, _Recorded] = field(default_factory=OrderedDict, repr=False)
    _similar: OrderedDict[_Reason, _Similar] = field(default_factory=OrderedDict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def record(self, kube: Kube, event: Object) -> None:
        """
        Raises:
            KubeError: when it could not be written.
        """
        key, event = self._counted_as(event)
        with self._lock:
            recorded = self._recorded.get(key)
        if recorded is not None:
            change = {"count": recorded.count + 1, "lastTimestamp": event["lastTimestamp"], "message": event["message"]}
            try:
                kube.merge("Event", event["metadata"]["namespace"], recorded.name, change, manager=MANAGER)
            except KubeError as error:
                if error.code != 404:  # the cluster has forgotten it
                    raise
            else:
                self._remember(key, _Recorded(recorded.name, recorded.count + 1))
                return
        self._remember(key, _Recorded(kube.create(event)["metadata"]["name"], 1))

    def _counted_as(self, event: Object) -> tuple[_Words, Object]:
        """The key that the event is counted by, and the event to write."""
        about: dict[str, Any] = event["involvedObject"]
        reason = (event["metadata"]["namespace"], about["kind"], about["uid"], event["type"], event["reason"])
        now = self.clock()
        with self._lock:
            similar = self._similar.get(reason)
            if similar is None or now - similar.at > SIMILAR_SECONDS:
                similar = _Similar(set(), now)
            if event["message"] not in similar.words:
                similar.at = now
                if len(similar.words) >= SIMILAR:
                    event = {**event, "message": _TOGETHER + event["message"]}
                else:
                    similar.words.add(event["message"])
            _put(self._similar, reason, similar)
        return (reason, _TOGETHER if event["message"].startswith(_TOGETHER) else event["message"]), event

    def _remember(self, key: _Words, recorded: _Recorded) -> None:
        with self._lock:
            _put(self._recorded, key, recorded)


def _put(kept: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    """Puts it last; the first one goes when there is no room."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > REMEMBERED:
        kept.popitem(last=False)
