# SPDX-License-Identifier: Apache-2.0
"""How many may be at something at the same time, where each comes to an end only later."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass
class Turns(Generic[K]):
    """May be used from any thread. What it remembers is lost with the process.

    Args:
        most: that have a turn at the same time.
        seconds: after which a turn is over in any case.
        clock: seconds that never go back.
    """

    most: int
    seconds: float
    clock: Callable[[], float] = time.monotonic
    _taken: dict[K, float] = field(default_factory=dict, repr=False)
    """Since when."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def has(self, who: K) -> bool:
        """Whether it is its turn now."""
        with self._lock:
            return who in self._under_way()

    def take(self, who: K) -> bool:
        """Whether it is its turn from now on, or was."""
        with self._lock:
            taken = self._under_way()
            if who not in taken and len(taken) >= self.most:
                return False
            taken.setdefault(who, self.clock())
            return True

    def give(self, who: K) -> None:
        """Its turn is over."""
        with self._lock:
            self._taken.pop(who, None)

    def _under_way(self) -> dict[K, float]:
        now = self.clock()
        self._taken = {each: since for each, since in self._taken.items() if now - since < self.seconds}
        return self._taken
