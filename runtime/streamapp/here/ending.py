# SPDX-License-Identifier: Apache-2.0
"""The last line of a run that has reached the end of its input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from streamapp.plan import Plan


def ending(plan: Plan, status: Mapping[str, Any]) -> str:
    """One line with the records that were read and written, those that were left out, and the results that still wait.

    Args:
        plan: the app's plan.
        status: the last status, in the shape of /status; its counts are of this run.
    """
    parts = status["subTopologies"].values()
    written = f"{status['recordsRead']:,} records read, {status['recordsWritten']:,} written"
    counts = {
        "late": sum(part["lateRecords"] for part in parts),
        "bad": sum(sum(part["badRecords"].values()) for part in parts),
        "lost": sum(part["lostRecords"] for part in parts),
    }
    passed = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count or what != "lost")
    return "; ".join([f"{plan.name} has caught up: {written}, {passed}", *_waiting(plan, status["stores"])])


def _waiting(plan: Plan, stores: Mapping[str, Any]) -> Iterator[str]:
    """A line about the entries in stores of nodes that give results later, for each event that they wait for."""
    nodes = [node for part in plan.subtopologies for node in part.nodes if node.gives_later is not None]
    for awaited in dict.fromkeys(node.gives_later for node in nodes):
        names = sorted({name for node in nodes if node.gives_later == awaited for name in node.stores} & set(stores))
        if rows := sum(stores[name]["rowsEstimate"] for name in names):
            yield f"about {rows:,} entries in {', '.join(names)} wait for {awaited}"
