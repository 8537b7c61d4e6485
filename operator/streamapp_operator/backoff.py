# SPDX-License-Identifier: Apache-2.0
"""Those who have not answered lately are left alone for a while: waiting for them holds all others up."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


@dataclass
class Silence(Generic[K]):
    """May be used from any thread.

    Args:
        seconds: for how long one is left alone.
        clock: seconds that never go back.
    """

    seconds: float
    clock: Callable[[], float] = time.monotonic
    _since: dict[K, tuple[float, str]] = field(default_factory=dict, repr=False)

    def reason(self, who: K) -> str | None:
        """Why that one is left alone now; None: it may be asked."""
        since, why = self._since.get(who, (float("-inf"), ""))
        return why if self.clock() - since < self.seconds else None

    def note(self, who: K, why: str) -> str:
        """It has not answered just now. Returns why."""
        now = self.clock()
        self._since = {other: noted for other, noted in self._since.items() if now - noted[0] < self.seconds}
        self._since[who] = now, why
        return why

    def forget(self, who: K) -> None:
        self._since.pop(who, None)
