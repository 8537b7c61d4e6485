# SPDX-License-Identifier: Apache-2.0
"""The queue of apps to look at. A key is handed out to one worker at a time, and however often it is added meanwhile,
it comes once more."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable

Key = tuple[str, str]
"""Namespace and name."""

FIRST_BACKOFF_SECONDS = 0.5
LONGEST_BACKOFF_SECONDS = 30.0
AHEAD = -3600.0
"""A negative delay in seconds, which puts a key before all others that are due."""


class Workqueue:
    """Keys with the time at which each is due. May be used from any thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, Key]] = []
        self._out: set[Key] = set()
        self._again: dict[Key, float] = {}
        """Keys that were added while they were out, and after how many seconds they are due at their return."""
        self._failures: dict[Key, int] = {}
        self._changed = threading.Condition()
        self._closed = False

    def add(self, key: Key, after: float = 0.0) -> None:
        """Adds a key. It is due after so many seconds, or when it is due anyway if that is sooner."""
        with self._changed:
            if key in self._out:
                self._again[key] = min(after, self._again.get(key, 0.0))
                return
            due = self._clock() + after
            if key not in self._due or due < self._due[key]:
                self._due[key] = due
                heapq.heappush(self._heap, (due, key))
                self._changed.notify()

    def take(self) -> Key | None:
        """The next key, when it is due; None when the queue is closed. Give it back by `done`."""
        with self._changed:
            while not self._closed:
                wait = self._seconds_to_next()
                if wait is not None and wait <= 0:
                    _, key = heapq.heappop(self._heap)
                    del self._due[key]
                    self._out.add(key)
                    return key
                self._changed.wait(wait)
            return None

    def done(self, key: Key, again: float | None) -> None:
        """Takes a key back after success. `again`: seconds after which to look again; None: not before it is added."""
        with self._changed:
            self._failures.pop(key, None)
        self._give_back(key, again)

    def failed(self, key: Key) -> None:
        """Takes a key back after a failure: it is due again after a while that grows with each failure."""
        with self._changed:
            count = self._failures.get(key, 0)
            self._failures[key] = count + 1
        self._give_back(key, min(FIRST_BACKOFF_SECONDS * 2**count, LONGEST_BACKOFF_SECONDS))

    @property
    def depth(self) -> int:
        """Keys that are due and have not been taken."""
        with self._changed:
            now = self._clock()
            return sum(due <= now for due in self._due.values())

    @property
    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _give_back(self, key: Key, again: float | None) -> None:
        with self._changed:
            self._out.discard(key)
            added = self._again.pop(key, None)
        if added is not None and key not in self._failures:
            again = added
        if again is not None:
            self.add(key, again)

    def _seconds_to_next(self) -> float | None:
        while self._heap:
            due, key = self._heap[0]
            if self._due.get(key) == due:  # else an earlier entry of the key has overtaken this one
                return due - self._clock()
            heapq.heappop(self._heap)
        return None
