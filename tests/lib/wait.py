# SPDX-License-Identifier: Apache-2.0
"""Waiting for something, with a deadline. Tests never sleep for a guessed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Found = TypeVar("Found")


def until(condition: Callable[[], Found], seconds: float, what: str | Callable[[], str], every: float = 0.05) -> Found:
    """Calls `condition` until it returns something true, and returns that.

    Past the deadline an AssertionError says what was waited for, and what the condition last returned. Give `what` as a
    function where it shows something that changes meanwhile, as the end of a log: it is called at the deadline.
    """
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() >= deadline:
            missed = what if isinstance(what, str) else what()
            raise AssertionError(f"not within {seconds:g} s: {missed} (last seen: {found!r})")
        time.sleep(every)
