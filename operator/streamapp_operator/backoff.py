# SPDX-License-Identifier: Apache-2.0
"""A backoff for peers that do not answer: each is left alone for a while, longer each time. Waiting for it holds all
others up, and a login that is refused again and again locks an account."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True)
class _Failure:
    at: float
    pause: float
    why: str


@dataclass
class Backoff(Generic[K]):
    """The pauses of peers that have not answered. May be used from any thread.

    Args:
        first: seconds of the pause after the first failure. It doubles with each failure that follows.
        longest: seconds of the longest pause.
        clock: seconds that never go back.
    """

    first: float
    longest: float
    clock: Callable[[], float] = time.monotonic
    _failures: dict[K, _Failure] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    """Held while the failures change."""

    def reason(self, who: K) -> str | None:
        """Why `who` is left alone now; None: it may be asked."""
        failure = self._failures.get(who)
        return failure.why if failure is not None and self.clock() - failure.at < failure.pause else None

    def failed(self, who: K, why: str) -> str:
        """Notes that `who` has not answered just now. Returns `why`."""
        now, before = self.clock(), self._failures.get(who)
        pause = self.first if before is None else min(2 * before.pause, self.longest)
        # A failure that is older than that is forgotten; else all would be remembered for ever.
        with self._lock:
            kept = {each: f for each, f in self._failures.items() if now - f.at < f.pause + self.longest}
            self._failures = {**kept, who: _Failure(now, pause, why)}
        return why

    def answered(self, who: K) -> None:
        """Notes that `who` has answered: its next failure counts as the first one."""
        with self._lock:
            self._failures.pop(who, None)
