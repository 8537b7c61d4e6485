# SPDX-License-Identifier: Apache-2.0
"""`ttl`: how long a row of a table stays that is not updated."""

from __future__ import annotations

from typing import Any

from streamapp.durations import format_duration

TTL = "How long a row stays that is not updated, in event time. Default: for ever."
"""What the field of the manifest is."""


def expiring(ttl_ms: int) -> dict[str, Any]:
    """What of it is in the shape of a state: that rows are looked after, not for how long."""
    return {"expires": True} if ttl_ms else {}


def ttl_in_words(ttl_ms: int) -> str:
    """What a description says of it at its end."""
    return f", each row for {format_duration(ttl_ms)} since its last update" if ttl_ms else ""
