# SPDX-License-Identifier: Apache-2.0
"""What a run that has reached the end of its input says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamapp.plan import Plan


def ending(plan: Plan, status: Mapping[str, Any]) -> str:
    """One line: what was read and written, what is not written yet, what was passed over.

    Args:
        plan: of the app.
        status: the last one, in the shape of /status; its counts are of this run.
    """
    parts = status["subTopologies"].values()
    written = f"{status['recordsRead']:,} records read, {status['recordsWritten']:,} written"
    windowed = {store.name for store in plan.stores if _waits(plan, store.node)}
    stores = status["stores"]
    rows = sum(stores[name]["rowsEstimate"] for name in sorted(windowed & set(stores)))
    counts = {
        "late": sum(part["lateRecords"] for part in parts),
        "bad": sum(sum(part["badRecords"].values()) for part in parts),
        "lost": sum(part["lostRecords"] for part in parts),
    }
    passed = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count or what != "lost")
    still_open = f"; about {rows:,} results wait for windows that are still open" if rows else ""
    return f"{plan.name} has caught up: {written}, {passed}{still_open}"


def _waits(plan: Plan, name: str) -> bool:
    """Whether a node writes a window's result when the window closes, and not before."""
    nodes = (node for part in plan.subtopologies for node in part.nodes)
    return any(node.name == name and getattr(node, "emit", "") == "final" for node in nodes)
