# SPDX-License-Identifier: Apache-2.0
"""The time of the API server, by the `Date` of its answers.

A time that is compared with one that the API server has written, as for the age of a deletion, must be of the same
clock: ours may be minutes off.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_RESOLUTION = 1.0
"""Seconds: `Date` has no fractions."""


class ServerClock:
    """Keeps the API server's time between its answers. May be used from any thread.

    Each answer says between which bounds the server's time is ahead of `steady`. The time is by the lower one of all
    answers so far: it is late by at most a second and the time of the fastest answer, and it is never early. An answer
    that agrees with none of the earlier ones, as after a step of the server's clock, begins anew.

    Args:
        steady: seconds that never go back.
        ours: our own time, which counts until there is an answer.
    """

    def __init__(
        self,
        steady: Callable[[], float] = time.monotonic,
        ours: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.steady = steady
        self._ours = ours
        self._ahead: tuple[float, float] | None = None
        self._lock = threading.Lock()

    def note(self, date: str | None, asked: float) -> None:
        """Notes that an answer has come just now.

        Args:
            date: its header `Date`; one that is no time is ignored.
            asked: when it was asked for, by `steady`.
        """
        try:
            server_time = parsedate_to_datetime(date or "").timestamp()
        except (ValueError, OverflowError):
            return
        low, high = server_time - self.steady(), server_time + _RESOLUTION - asked
        with self._lock:
            if self._ahead is not None and self._ahead[0] <= high and low <= self._ahead[1]:
                low, high = max(low, self._ahead[0]), min(high, self._ahead[1])
            self._ahead = low, high

    def now(self) -> datetime:
        ahead = self._ahead
        return self._ours() if ahead is None else datetime.fromtimestamp(self.steady() + ahead[0], UTC)
