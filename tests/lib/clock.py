# SPDX-License-Identifier: Apache-2.0
"""A clock that a test moves."""

from __future__ import annotations


class Clock:
    """Seconds, in `now`."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now
