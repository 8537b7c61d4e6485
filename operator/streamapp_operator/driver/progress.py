# SPDX-License-Identifier: Apache-2.0
"""Numbers of the driver's status, as the resource's status shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamapp.plan import Plan

Live = Mapping[str, Any]


def lag_of(live: Live) -> dict[str, Any] | None:
    """None before the driver knows.

    >>> lag_of({"lag": {"a/0": 2, "a/1": 3, "b/0": 0}, "totalLag": 5})
    {'total': 5, 'topics': {'a': 5, 'b': 0}}
    """
    if "lag" not in live:
        return None
    topics: dict[str, int] = {}
    for partition, records in live["lag"].items():
        topic = partition.rpartition("/")[0]
        topics[topic] = topics.get(topic, 0) + int(records)
    # An API server takes an empty object, where there was one with something in it, for null, and refuses that.
    return {"total": sum(topics.values()), **({"topics": topics} if topics else {})}


def waiting_of(live: Live, plan: Plan) -> dict[str, int]:
    """Records that wait, by the sub-topologies that read them; of one that several read, no one knows for which."""
    topics = (lag_of(live) or {}).get("topics", {})
    found = {part.name: sum(n for topic, n in topics.items() if part.reads(topic)) for part in plan.subtopologies}
    return {name: records for name, records in found.items() if records}


def epochs_of(live: Live) -> dict[str, int]:
    """How many each sub-topology has committed since the driver began."""
    return {name: int(part.get("epochs", 0)) for name, part in live.get("subTopologies", {}).items()}


def sub_topologies_of(live: Live) -> list[dict[str, Any]]:
    found = []
    for name, part in sorted(live.get("subTopologies", {}).items()):
        shown = {"name": name, "epoch": part["epoch"]}
        found.append({**shown, "watermark": part["watermark"]} if part.get("watermark") else shown)
    return found


def restore_of(live: Live) -> dict[str, Any] | None:
    """How far the stores are that are being rebuilt; None when none is.

    >>> restore_of({"restore": {"s": {"restoring": 1, "done": 50, "total": 200, "etaSeconds": 3.2}}})
    {'progress': '25% (4s)', 'done': 50, 'total': 200, 'etaSeconds': 4}
    """
    stores = [store for store in live.get("restore", {}).values() if store["restoring"]]
    if not stores:
        return None
    done, total = sum(store["done"] for store in stores), sum(store["total"] for store in stores)
    eta = max(-int(-store["etaSeconds"] // 1) for store in stores)
    share = 100 * done // total if total else 0
    return {"progress": f"{share}% ({eta}s)", "done": done, "total": total, "etaSeconds": eta}
