# SPDX-License-Identifier: Apache-2.0
"""The state that earlier versions of the app have left on its metadata topic, and whether this version can go on from
it. It cannot go on from a position that no part of it takes over, from one in other topics, or with a store that has
missed records for a while."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from streamapp.errors import InputError
from streamapp.inputs import Input, Numbering
from streamapp.internal_topics import POSITION, REPARTITION
from streamapp.plan import Plan
from streamapp.succession import NO_EPOCH, Predecessor, Shape, called, inputs_of, refusals, shapes_of, sources_of

_ANOTHER = (
    "Give the node another `store`, which begins empty; or, to process everything again, choose another applicationId"
)


@dataclass(frozen=True)
class Hops:
    """The internal topics that a sub-topology writes, and those that it wrote in earlier versions."""

    written: frozenset[str] = frozenset()
    ended: Mapping[str, int] = field(default_factory=dict)
    """The topics of earlier versions, each with the last epoch committed before the first version without it."""

    @staticmethod
    def from_json(text: str) -> Hops:
        """Reads the text that `to_json` wrote."""
        found = json.loads(text)
        return Hops(frozenset(found["written"]), found["ended"])

    def to_json(self) -> str:
        """The text that the metadata topic keeps."""
        return json.dumps({"written": sorted(self.written), "ended": dict(sorted(self.ended.items()))})


@dataclass(frozen=True)
class Known:
    """A sub-topology of an earlier run."""

    stateful: bool
    topics: frozenset[str]
    """The topics that it has read."""
    planned: int = NO_EPOCH
    """Its last epoch, whether committed or not."""
    committed: int = NO_EPOCH
    """Its last epoch that was committed."""
    hops: Hops | None = None
    """None when nothing was noted."""
    inputs: Mapping[int, Input] = field(default_factory=dict)
    """The sources that it has a position in, and those of earlier versions, by number."""
    noted: Mapping[int, Input] = field(default_factory=dict)
    """The sources on record, by number; some may have no position yet."""
    positions: Mapping[int, str] = field(default_factory=dict)
    """The position in each source at the end of its last epoch, as Spark writes it, by the source's number."""
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    """The shapes of its stores, by name; empty when nothing was noted."""

    @property
    def predecessor(self) -> Predecessor:
        """The predecessor of the next version. A store holds nothing before its first epoch is committed."""
        shapes = self.shapes if self.committed != NO_EPOCH else {}
        return Predecessor(self.stateful, self.topics, self.inputs, shapes)


_NEVER_RUN = Known(False, frozenset())


def read_known(text: str) -> dict[str, Known]:
    """The known sub-topologies in the driver bridge's answer, by name."""
    return {name: _read(name, found) for name, found in json.loads(text).items()}


def _read(name: str, found: Mapping[str, Any]) -> Known:
    positions, notes = _positions(found["offsets"]), found["notes"]
    noted = inputs_from_json(notes["sources"]) if "sources" in notes else {}
    return Known(
        found["stateful"],
        frozenset(topic for position in positions.values() for topic in json.loads(position)),
        found["planned"],
        found["committed"],
        Hops.from_json(notes["hops"]) if "hops" in notes else None,
        _inputs(noted, positions),
        noted,
        positions,
        shapes_from_json(notes["shape"], name) if "shape" in notes else {},
    )


def _inputs(noted: Mapping[int, Input], positions: Collection[int]) -> dict[int, Input]:
    """The sources that an epoch has read. A source that the last epoch has read has not ended, even if a version that
    ran no epoch has noted so."""
    known = {number: each for number, each in noted.items() if each.until is not None or each.position is not None}
    return known | {
        number: replace(each, until=None, position=None) for number, each in noted.items() if number in positions
    }


def _positions(offset_log: str) -> dict[int, str]:
    """The positions in an offset log's file, by the source's number. The file has a line for the version, one for the
    metadata, and then a line NUMBER:POSITION for each source."""
    lines = (line.partition(":") for line in offset_log.splitlines()[2:])
    return {int(number): position for number, _, position in lines if position.startswith("{")}


def require_succession(plan: Plan, known: Mapping[str, Known], words: Mapping[str, str]) -> None:
    """Checks that the plan can go on from the state of earlier runs.

    Args:
        plan: the plan that is to run.
        known: the sub-topologies of earlier runs.
        words: a description of each store's node, by the store's name.

    Raises:
        InputError: when a part of the plan cannot go on from where it stands.
    """
    before = {name: old.predecessor for name, old in known.items()}
    if found := list(refusals(plan, before, words)):
        raise InputError("\n".join(refusal.words for refusal in found))


Shapes = Mapping[str, Shape]
"""The shapes of a sub-topology's stores, by name."""


def shapes_from_json(text: str, subtopology: str) -> Shapes:
    """Reads the text of `shapes_to_json`. A version that knew one store for each sub-topology wrote only its shape."""
    found = json.loads(text)
    if "fingerprint" in found:
        return {subtopology: Shape(**found)}
    return {store: Shape(**shape) for store, shape in found["stores"].items()}


def shapes_to_json(shapes: Shapes) -> str:
    """The text that the metadata topic keeps."""
    return json.dumps({"stores": {store: asdict(shape) for store, shape in sorted(shapes.items())}})


def inputs_from_json(text: str) -> dict[int, Input]:
    """Reads the text that `inputs_to_json` wrote."""
    return {
        int(number): Input(**{**each, "topics": frozenset(each["topics"])}) for number, each in json.loads(text).items()
    }


def inputs_to_json(inputs: Mapping[int, Input]) -> str:
    """The text that the metadata topic keeps."""
    return json.dumps(
        {str(number): {**asdict(each), "topics": sorted(each.topics)} for number, each in sorted(inputs.items())}
    )


def numberings_of(plan: Plan, known: Mapping[str, Known]) -> dict[str, Numbering]:
    """The numbers of the plan's sources, by sub-topology."""
    return {part.name: inputs_of(part, known.get(part.name, _NEVER_RUN).inputs) for part in plan.subtopologies}


def inputs_to_note(
    plan: Plan, known: Mapping[str, Known], numberings: Mapping[str, Numbering]
) -> Iterator[tuple[str, Mapping[int, Input]]]:
    """The notes to write before the plan's first epoch: sub-topologies' names and their sources, by number."""
    for part in plan.subtopologies:
        old, sources = known.get(part.name, _NEVER_RUN), numberings[part.name]
        inputs = {number: each for number, each in old.inputs.items() if each.until is not None}
        for number, each in sources.gone.items():
            inputs[number] = replace(each, until=old.planned, position=_left_at(number, each, old))
        for source in sources_of(part):
            now = replace(Input.of(source), position=sources.positions.get(source.name))
            inputs[sources.numbers[source.name]] = now
        if inputs != old.noted:
            yield part.name, inputs


def _left_at(number: int, source: Input, old: Known) -> str | None:
    """The position at which a former source ended; None where its last epoch may not have been processed."""
    if number not in old.positions:
        return source.position  # it has come back, and was not read since
    return old.positions[number] if old.planned == old.committed else None


def shapes_after(plan: Plan, known: Mapping[str, Known], words: Mapping[str, str]) -> dict[str, Shapes]:
    """The shapes of the plan's stores and of its sub-topologies' former stores, by sub-topology."""
    return {name: _after(known.get(name, _NEVER_RUN), now) for name, now in shapes_of(plan, words).items()}


def _after(old: Known, now: Shapes) -> Shapes:
    if old.planned == NO_EPOCH or not old.shapes:
        return now
    ended = {
        name: shape if shape.until is not None else replace(shape, until=old.committed)
        for name, shape in old.shapes.items()
        if name not in now and old.committed != NO_EPOCH
    }
    came = {name: old.shapes[name].since if name in old.shapes else old.planned for name in now}
    return ended | {name: replace(shape, since=came[name]) for name, shape in now.items()}


def shapes_to_note(after: Mapping[str, Shapes], known: Mapping[str, Known]) -> tuple[dict[str, Shapes], ...]:
    """The shapes that are not on record, in two parts. The first are certain and may be noted before the plan's first
    epoch. The second may be noted only after a committed epoch, as an earlier version has not noted its shapes."""
    certain: dict[str, Shapes] = {}
    unproven: dict[str, Shapes] = {}
    for name, shapes in after.items():
        old = known.get(name, _NEVER_RUN)
        if shapes != old.shapes:
            (certain if old.shapes or old.committed == NO_EPOCH else unproven)[name] = shapes
    return certain, unproven


def begun_late(after: Mapping[str, Shapes]) -> dict[str, int]:
    """The stores that were added to a sub-topology that had run, each with the last epoch planned by then."""
    used = ((name, shape) for shapes in after.values() for name, shape in shapes.items() if shape.until is None)
    return {name: shape.since for name, shape in used if shape.since != NO_EPOCH}


def require_fed(plan: Plan, known: Mapping[str, Known]) -> None:
    """Checks that no part of the plan has missed records.

    A store never gets the records that its task has processed in a version without the store. The writer of an internal
    topic has a position of its own: the topic's reader never gets the records that the writer has processed in a
    version that did not write the topic.

    Raises:
        InputError: when a part comes back that has missed records.
    """
    for store in plan.stores:
        task = known.get(store.subtopology, _NEVER_RUN)
        until = task.shapes[store.name].until if store.name in task.shapes else None
        if until is not None and until != task.planned:
            raise InputError(
                f"store '{store.name}' was not part of the version before, which has processed records that it never "
                f"got: sub-topology '{store.subtopology}' has gone on from epoch {until} to {task.planned} without it. "
                f"{_ANOTHER}"
            )
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
    """The notes to write before the plan's first epoch: sub-topologies' names and their internal topics from now on."""
    for part in plan.subtopologies:
        now = part.writes_internally
        old = known.get(part.name, _NEVER_RUN)
        before = old.hops or Hops()
        ended = {topic: epoch for topic, epoch in before.ended.items() if topic not in now}
        ended |= dict.fromkeys(before.written - now, old.committed)
        if (hops := Hops(now, ended)) != before:
            yield part.name, hops


def written_before(plan: Plan, known: Mapping[str, Known]) -> frozenset[str]:
    """The plan's internal topics that earlier runs have written in committed epochs."""
    committed = {name: old for name, old in known.items() if old.committed != NO_EPOCH}
    changelogs = {
        store.changelog_topic for store in plan.stores if _has_state(store.name, committed.get(store.subtopology))
    }
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


def _has_state(store: str, part: Known | None) -> bool:
    return part is not None and part.stateful and (not part.shapes or store in part.shapes)
