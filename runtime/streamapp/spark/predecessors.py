# SPDX-License-Identifier: Apache-2.0
"""What earlier versions of the app have left on its metadata topic, and whether this one can go on from there: a
position that nobody goes on from, one in other topics, a store that has been fed no longer for a while."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from streamapp.errors import InputError
from streamapp.nodes import DeadLetter
from streamapp.plan import Plan, SubTopology

NO_EPOCH = -1
_ANOTHER = (
    "give the node another `store`, which begins empty; or, to process everything again, choose another applicationId"
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


def read_known(text: str) -> dict[str, Known]:
    """From the driver bridge's answer, by name."""
    return {
        name: Known(
            found["stateful"],
            frozenset(_topics(found["offsets"])),
            found["planned"],
            found["committed"],
            Hops.from_json(found["hops"]) if found["hops"] else None,
        )
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


def require_same_way(plan: Plan, known: Mapping[str, Known]) -> None:
    """A part has a position in each topic it reads. When records come by an internal topic that came directly before,
    or the other way round, that position is good for nothing: they would be processed again, or never.

    Raises:
        InputError: when a part gets its records by another way than it did.
    """
    for part in plan.subtopologies:
        old = known.get(part.name)
        if old is None or not old.topics:
            continue
        was = {topic for topic in old.topics if _is_internal(plan, topic)}
        will = part.reads_internally
        if was != will:
            raise InputError(
                f"{_called(part)} has its position in {_way(was - will)}, and would read {_way(will - was)}: records "
                f"would be processed again, or never. Undo the change, or {_ANOTHER}"
            )


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
                    f"{_called(reader)} was not part of the version before, which has processed records that it never "
                    f"got: '{writer.name}' has gone on from epoch {old.hops.ended[topic]} to {old.planned} without "
                    f"writing '{topic}'. {_ANOTHER[0].upper()}{_ANOTHER[1:]}"
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
        or (topic.role == "repartition" and topic.name in hops | read)
        or (topic.role == "position" and stateless)
    )


def _has_state(part: Known | None) -> bool:
    return part is not None and part.stateful


def _is_internal(plan: Plan, topic: str) -> bool:
    return topic.startswith(f"{plan.application_id}-") and topic.endswith("-repartition")


def _way(topics: frozenset[str] | set[str]) -> str:
    return f"internal topic '{min(topics)}'" if topics else "its sources"


def _called(part: SubTopology) -> str:
    return f"store '{part.name}'" if part.stateful is not None else f"sub-topology '{part.name}'"


def _is_dead_letter(part: SubTopology) -> bool:
    return any(isinstance(node, DeadLetter) for node in part.nodes)
