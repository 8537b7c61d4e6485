# SPDX-License-Identifier: Apache-2.0
"""What earlier versions of the app have left on its metadata topic, and whether this one can go on from there: a
position that nobody goes on from, one in other topics, a store that has been fed no longer for a while."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from streamapp.errors import InputError
from streamapp.internal_topics import POSITION, REPARTITION
from streamapp.plan import Plan
from streamapp.succession import Predecessor, Shape, called, refusals, shapes_of

NO_EPOCH = -1
_ANOTHER = (
    "Give the node another `store`, which begins empty; or, to process everything again, choose another applicationId"
)


@dataclass(frozen=True)
class Hops:
    """The internal topics that a sub-topology writes, and those that it has written in an earlier version."""

    written: frozenset[str] = frozenset()
    ended: Mapping[str, int] = field(default_factory=dict)
    """Those of earlier versions: with the last epoch that was committed when the first version without them began."""

    @staticmethod
    def from_json(text: str) -> Hops:
        """What `to_json` wrote."""
        found = json.loads(text)
        return Hops(frozenset(found["written"]), found["ended"])

    def to_json(self) -> str:
        """As it is kept on the metadata topic."""
        return json.dumps({"written": sorted(self.written), "ended": dict(sorted(self.ended.items()))})


@dataclass(frozen=True)
class Known:
    """A sub-topology of an earlier run."""

    stateful: bool
    topics: frozenset[str]
    """That it has read."""
    planned: int = NO_EPOCH
    """Its last epoch, be it committed or not."""
    committed: int = NO_EPOCH
    """Its last epoch that was committed."""
    hops: Hops | None = None
    """None when nothing was noted."""
    inputs: int = 0
    """Sources that it has a position in; 0 when it has none yet."""
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    """What its stores hold, by name; empty when nothing was noted."""

    @property
    def predecessor(self) -> Predecessor:
        """What a next version goes on from. A store holds nothing before its first epoch is committed."""
        shapes = self.shapes if self.committed != NO_EPOCH else {}
        return Predecessor(self.stateful, self.topics, self.inputs, shapes)


def read_known(text: str) -> dict[str, Known]:
    """From the driver bridge's answer, by name."""
    return {
        name: Known(
            found["stateful"],
            frozenset(topic for line in _positions(found["offsets"]) for topic in line or ()),
            found["planned"],
            found["committed"],
            Hops.from_json(found["notes"]["hops"]) if "hops" in found["notes"] else None,
            len(_positions(found["offsets"])),
            shapes_from_json(found["notes"]["shape"], name) if "shape" in found["notes"] else {},
        )
        for name, found in json.loads(text).items()
    }


def _positions(offset_log: str) -> list[dict[str, Any] | None]:
    """What an offset log's file has of each source: after a line for the version and one for the metadata comes one for
    each. None for a source without a position."""
    return [json.loads(line) if line.startswith("{") else None for line in offset_log.splitlines()[2:]]


def require_succession(plan: Plan, known: Mapping[str, Known], words: Mapping[str, str]) -> None:
    """
    Args:
        plan: to be run.
        known: what earlier runs have left.
        words: what a store's node does, by the store's name.

    Raises:
        InputError: when a part of the plan cannot go on from where it stands.
    """
    before = {name: old.predecessor for name, old in known.items()}
    if found := list(refusals(plan, before, words)):
        raise InputError("\n".join(refusal.words for refusal in found))


Shapes = Mapping[str, Shape]
"""What the stores of a sub-topology hold, by name."""


def shapes_from_json(text: str, subtopology: str) -> Shapes:
    """What `shapes_to_json` wrote. A version that knew one store for each sub-topology wrote its shape alone."""
    found = json.loads(text)
    if "fingerprint" in found:
        return {subtopology: Shape(**found)}
    return {store: Shape(**shape) for store, shape in found["stores"].items()}


def shapes_to_json(shapes: Shapes) -> str:
    """As it is kept on the metadata topic."""
    return json.dumps({"stores": {store: asdict(shape) for store, shape in sorted(shapes.items())}})


def shapes_to_note(plan: Plan, known: Mapping[str, Known], words: Mapping[str, str]) -> tuple[dict[str, Shapes], ...]:
    """What stores hold that is not on record, by sub-topology: what may be noted before the plan's first epoch, as no
    earlier one was committed; and what may be noted when one was, as an earlier version has not noted what it holds."""
    now = shapes_of(plan, words)
    shapes: dict[str, Shapes] = {name: s for name, s in now.items() if name not in known or known[name].shapes != s}
    new = {name: s for name, s in shapes.items() if name not in known or known[name].committed == NO_EPOCH}
    return new, {name: s for name, s in shapes.items() if name not in new}


def require_fed(plan: Plan, known: Mapping[str, Known]) -> None:
    """What writes an internal topic has a position of its own: what it has processed in a version that did not write
    that topic, whoever reads it never gets.

    Raises:
        InputError: when a part comes back that has missed records.
    """
    for writer in plan.subtopologies:
        old = known.get(writer.name)
        if old is None or old.hops is None:
            continue
        for topic in sorted(writer.writes_internally & set(old.hops.ended)):
            reader = next(part for part in plan.subtopologies if part.reads(topic))
            before = known.get(reader.name)
            if old.planned != old.hops.ended[topic] and before is not None and before.topics:
                raise InputError(
                    f"{called(reader)} was not part of the version before, which has processed records that it never "
                    f"got: '{writer.name}' has gone on from epoch {old.hops.ended[topic]} to {old.planned} without "
                    f"writing '{topic}'. {_ANOTHER}"
                )


def hops_to_note(plan: Plan, known: Mapping[str, Known]) -> Iterator[tuple[str, Hops]]:
    """What is to be noted before the plan's first epoch: sub-topologies' names and their internal topics of now on."""
    for part in plan.subtopologies:
        now = part.writes_internally
        old = known.get(part.name, Known(False, frozenset()))
        before = old.hops or Hops()
        ended = {topic: epoch for topic, epoch in before.ended.items() if topic not in now}
        ended |= dict.fromkeys(before.written - now, old.committed)
        if (hops := Hops(now, ended)) != before:
            yield part.name, hops


def written_before(plan: Plan, known: Mapping[str, Known]) -> frozenset[str]:
    """The plan's internal topics that earlier runs have written: their epochs were committed."""
    committed = {name: old for name, old in known.items() if old.committed != NO_EPOCH}
    changelogs = {store.changelog_topic for store in plan.stores if _has_state(committed.get(store.subtopology))}
    hops = {topic for old in committed.values() if old.hops for topic in (*old.hops.written, *old.hops.ended)}
    read = {topic for old in committed.values() for topic in old.topics}
    stateless = any(not old.stateful for old in committed.values())
    return frozenset(
        topic.name
        for topic in plan.topics
        if topic.name in changelogs
        or (topic.role == REPARTITION and topic.name in hops | read)
        or (topic.role == POSITION and stateless)
    )


def _has_state(part: Known | None) -> bool:
    return part is not None and part.stateful
