# SPDX-License-Identifier: Apache-2.0
"""Times as Kubernetes writes them."""

from __future__ import annotations

from datetime import datetime


def stamp(moment: datetime) -> str:
    """The time as Kubernetes writes it, to the second.

    >>> from datetime import UTC
    >>> stamp(datetime(2024, 1, 31, 12, 0, 0, 5, tzinfo=UTC))
    '2024-01-31T12:00:00Z'
    """
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_since(time: str, now: datetime) -> float:
    """
    Args:
        time: with its zone, as Kubernetes writes it.

    >>> from datetime import UTC
    >>> seconds_since("2024-01-31T12:00:00Z", datetime(2024, 1, 31, 12, 1, tzinfo=UTC))
    60.0
    """
    return (now - datetime.fromisoformat(time)).total_seconds()
