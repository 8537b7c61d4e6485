# SPDX-License-Identifier: Apache-2.0
"""Limits how many may do something at the same time. A turn lasts until it is given back, or its time is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass
class Turns(Generic[K]):
    """The turns that are taken. May be used from any thread. Its memory is lost with the process.

    Args:
        most: turns at the same time.
        seconds: after which a turn is over in any case.
        clock: seconds that never go back.
    """

    most: int
    seconds: float
    clock: Callable[[], float] = time.monotonic
    _taken: dict[K, float] = field(default_factory=dict, repr=False)
    """By key: since when it has its turn."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def has(self, who: K) -> bool:
        """Whether `who` has a turn now."""
        with self._lock:
            return who in self._under_way()

    def take(self, who: K) -> bool:
        """Takes a turn for `who`, if there is one. Returns whether `who` has one now."""
        with self._lock:
            taken = self._under_way()
            if who not in taken and len(taken) >= self.most:
                return False
            taken.setdefault(who, self.clock())
            return True

    def give(self, who: K) -> None:
        """Ends the turn of `who`."""
        with self._lock:
            self._taken.pop(who, None)

    def _under_way(self) -> dict[K, float]:
        now = self.clock()
        self._taken = {each: since for each, since in self._taken.items() if now - since < self.seconds}
        return self._taken
