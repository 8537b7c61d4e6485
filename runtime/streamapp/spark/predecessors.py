# SPDX-License-Identifier: Apache-2.0
"""What earlier versions of the app have left under names that this one has not: a position nobody goes on from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from streamapp.errors import InputError
from streamapp.nodes import DeadLetter
from streamapp.plan import Plan, SubTopology


@dataclass(frozen=True)
class Known:
    """A sub-topology of an earlier run: whether it had state, and the topics it has read."""

    stateful: bool
    topics: frozenset[str]


def read_known(text: str) -> dict[str, Known]:
    """From the driver bridge's answer, by name."""
    return {
        name: Known(found["stateful"], frozenset(_topics(found["offsets"])))
        for name, found in json.loads(text).items()
    }


def _topics(offset_log: str) -> list[str]:
    """Of an offset log's file: after a line for the version and one for the metadata comes one for each source."""
    lines = [json.loads(line) for line in offset_log.splitlines()[2:] if line.startswith("{")]
    return [topic for line in lines for topic in line]


def require_positions_kept(plan: Plan, known: Mapping[str, Known]) -> None:
    """A part without state keeps its position under its name; with another name it would do everything again.

    Raises:
        InputError: when a new part reads what a part that is gone has already processed.
    """
    names = {part.name for part in plan.subtopologies}
    gone = {name: old for name, old in known.items() if name not in names and not old.stateful}
    for part in plan.subtopologies:
        if part.stateful is not None or part.name in known:
            continue
        for name, old in sorted(gone.items()):
            again = sorted(topic for topic in old.topics if part.reads(topic))
            if again and _is_dead_letter(part) == name.endswith("-dead-letter"):
                raise InputError(
                    f"sub-topology '{part.name}' would process topic '{again[0]}' from startFrom on, although "
                    f"'{name}' of an earlier version has processed it already: a sub-topology without state is named "
                    f"after its first source. Name the source '{name.removesuffix('-dead-letter')}' again and put none "
                    "before it in the alphabet; or, to process everything again, choose another applicationId"
                )


def _is_dead_letter(part: SubTopology) -> bool:
    return any(isinstance(node, DeadLetter) for node in part.nodes)
