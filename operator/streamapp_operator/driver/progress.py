# SPDX-License-Identifier: Apache-2.0
"""Numbers of the driver's answer, as the resource's status shows them."""

from __future__ import annotations

import math
from typing import Any

from streamapp.plan import Plan
from streamapp_operator.driver.answer import Answer


def lag_of(answer: Answer) -> dict[str, Any] | None:
    """The lag, in all and by topic; None before the driver knows it.

    >>> lag_of(Answer(lag={"a/0": 2, "a/1": 3, "b/0": 0}))
    {'total': 5, 'topics': {'a': 5, 'b': 0}}
    """
    if answer.lag is None:
        return None
    topics: dict[str, int] = {}
    for partition, records in answer.lag.items():
        topic = partition.rpartition("/")[0]
        topics[topic] = topics.get(topic, 0) + records
    # An API server takes an empty object, where there was one with something in it, for null, and refuses that.
    return {"total": sum(topics.values()), **({"topics": topics} if topics else {})}


def waiting_of(answer: Answer, plan: Plan) -> dict[str, int]:
    """Records that wait, by the sub-topologies that read them. Records of a topic that several read count for each of
    them, as nobody knows for which they wait."""
    topics = (lag_of(answer) or {}).get("topics", {})
    found = {part.name: sum(n for topic, n in topics.items() if part.reads(topic)) for part in plan.subtopologies}
    return {name: records for name, records in found.items() if records}


def epochs_of(answer: Answer) -> dict[str, int]:
    """The number of epochs that each sub-topology has committed since the driver began."""
    return {name: part.epochs for name, part in answer.parts.items()}


def sub_topologies_of(answer: Answer) -> list[dict[str, Any]]:
    found = []
    for name, part in sorted(answer.parts.items()):
        shown = {"name": name, "epoch": part.epoch, "watermark": part.watermark or None}
        found.append({key: value for key, value in shown.items() if value is not None})
    return found


def restore_of(answer: Answer) -> dict[str, Any] | None:
    """The progress of the stores that are being restored; None when none is.

    >>> from streamapp_operator.driver.answer import Restore
    >>> restore_of(Answer(restores={"s": Restore(restoring=True, done=50, total=200, eta_seconds=3.2)}))
    {'progress': '25% (4s)', 'done': 50, 'total': 200, 'etaSeconds': 4}

    One that has just begun does not know yet how much there is.

    >>> restore_of(Answer(restores={"s": Restore(restoring=True, done=0, total=0, eta_seconds=0)}))
    {'progress': 'just begun', 'done': 0, 'total': 0, 'etaSeconds': 0}
    """
    stores = [store for store in answer.restores.values() if store.restoring]
    if not stores:
        return None
    done, total = sum(store.done for store in stores), sum(store.total for store in stores)
    eta = max(math.ceil(store.eta_seconds) for store in stores)
    progress = f"{100 * done // total}% ({eta}s)" if total else "just begun"
    return {"progress": progress, "done": done, "total": total, "etaSeconds": eta}
