# SPDX-License-Identifier: Apache-2.0
"""`ttl`: how long a row of a table stays that is not updated."""

from __future__ import annotations

from typing import Any

from streamapp.durations import format_duration

TTL = "How long a row stays that is not updated, in event time. Default: for ever."
"""The description of the manifest's field."""


def expiring(ttl_ms: int) -> dict[str, Any]:
    """Its part in the shape of a state: that rows expire, not after how long."""
    return {"expires": True} if ttl_ms else {}


def ttl_in_words(ttl_ms: int) -> str:
    """Its part at the end of a description."""
    return f", each row for {format_duration(ttl_ms)} since its last update" if ttl_ms else ""
