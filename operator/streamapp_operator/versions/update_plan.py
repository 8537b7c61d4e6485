# SPDX-License-Identifier: Apache-2.0
"""The plan of an update, as status shows it: before anything is done, and until the next one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from streamapp_operator.versions.changes import Changes
from streamapp_operator.versions.rollout import INVALID, PAUSED, ROLLED_BACK, Rollout

APPLIED, REFUSED = "Applied", "Refused"
OUTCOMES = (APPLIED, REFUSED, ROLLED_BACK, PAUSED)


def plan_of(rollout: Rollout, generation: int, previous: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """
    Args:
        rollout: what is to run.
        generation: of the resource.
        previous: the plan so far: it stays while there is no other.
    """
    outcome = rollout.held if rollout.held in (ROLLED_BACK, PAUSED) else REFUSED if rollout.held else APPLIED
    changes, why = rollout.changes, {"why": rollout.why} if rollout.why else {}
    if changes is not None and (changes.fields or changes.state):
        return {"generation": generation, "outcome": outcome, **why, **described(changes)}
    if previous is None or rollout.held == INVALID:
        return dict(previous) if previous is not None else None
    return {**{key: value for key, value in previous.items() if key != "why"}, "outcome": outcome, **why}


def described(changes: Changes) -> dict[str, Any]:
    """The changes and their classes, the outcome for the state, and the part that is started anew."""
    return {
        "class": changes.kind,
        "restarts": changes.restarts,
        "changes": [
            {"field": change.field, "class": change.kind, "change": change.full_words} for change in changes.fields
        ],
        "state": [{"name": each.name, "outcome": each.outcome, "what": each.words} for each in changes.state],
    }
