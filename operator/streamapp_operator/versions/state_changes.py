# SPDX-License-Identifier: Apache-2.0
"""What becomes of an app's state and positions when its plan changes: pure, of the two plans."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from streamapp.nodes import RepartitionSource, Stream
from streamapp.plan import Plan, Store, SubTopology

KEPT, NEW, UNUSED, REFUSED = "Kept", "New", "Unused", "Refused"
_WAY_OUT = "undo the change, or give the node another `store`, which begins empty"


@dataclass(frozen=True)
class StateChange:
    """What becomes of a store, or of the position of a part without state."""

    name: str
    """Of the store, or of the sub-topology."""
    outcome: str
    """KEPT, NEW, UNUSED, or REFUSED: the change cannot be made."""
    words: str
    node: str | None = None
    """Of the store."""


def state_changes(before: Plan, after: Plan) -> Iterator[StateChange]:
    """One for each store of either plan, and one for each position that would be lost."""
    was, will = {store.name: store for store in before.stores}, {store.name: store for store in after.stores}
    for name, store in was.items():
        if name not in will:
            words = f"store '{name}' is not used any more; its changelog {store.changelog_topic} stays"
            if feeders := _going_on(before, store, after):
                words += f". It cannot come back when '{feeders[0]}' has gone on without it"
            yield StateChange(name, UNUSED, words, store.node)
        else:
            problem = _problem(store, will[name], before, after)
            words = f"store '{name}' {problem}" if problem else f"store '{name}' is kept"
            yield StateChange(name, REFUSED if problem else KEPT, words, will[name].node)
    for name, store in will.items():
        if name not in was:
            feeders = _going_on(after, store, before)
            then = f"with what '{feeders[0]}' gives from now on" if feeders else "and reads its input from startFrom on"
            yield StateChange(name, NEW, f"store '{name}' is new and begins empty, {then}", store.node)
    yield from _positions(before, after)


def would_miss(before: Plan, after: Plan) -> str:
    """Why `after` could not follow on `before`, if an app of it has run earlier: a store that comes back, while what
    feeds it by an internal topic has gone on without it. Empty when there is none."""
    known = {store.name for store in before.stores}
    for store in after.stores:
        if store.name not in known and (feeders := _going_on(after, store, before)):
            return f"store '{store.name}' would miss what '{feeders[0]}' has processed without it"
    return ""


def _going_on(plan: Plan, store: Store, other: Plan) -> list[str]:
    """What feeds the store by internal topics in the plan, and is in the other one too: it has one position in both."""
    there = {part.name for part in other.subtopologies}
    read = plan.subtopology(store.subtopology).reads_internally
    return sorted(part.name for part in plan.subtopologies if part.writes_internally & read and part.name in there)


def _problem(store: Store, new: Store, before: Plan, after: Plan) -> str:
    """Why the store cannot go on with what it holds; empty when it can."""
    if new.partitions != store.partitions:
        return (
            f"has {store.partitions} partitions and would have {new.partitions}: spec.maxParallelism is fixed for the "
            "store's life; set it back"
        )
    if new.fingerprint != store.fingerprint:
        return f"(node '{new.node}') holds state that would mean something else; {_WAY_OUT}"
    had, has = (len(_sources(plan.subtopology(s.subtopology))) for plan, s in ((before, store), (after, new)))
    if had != has:
        return f"(node '{new.node}') has a position in {had} inputs and would have {has}; {_WAY_OUT}"
    was, will = (plan.subtopology(s.subtopology).reads_internally for plan, s in ((before, store), (after, new)))
    if was != will:
        here, there = _way(was - will), _way(will - was)
        return f"(node '{new.node}') has its position in {here}, and would read {there}; {_WAY_OUT}"
    return ""


def _way(topics: frozenset[str]) -> str:
    return f"internal topic '{min(topics)}'" if topics else "its sources"


def _positions(before: Plan, after: Plan) -> Iterator[StateChange]:
    """A part without state keeps its position under its name, which is that of its first source."""
    names = {part.name for part in after.subtopologies}
    known = {part.name for part in before.subtopologies}
    gone = [part for part in before.subtopologies if part.stateful is None and part.name not in names]
    for part in after.subtopologies:
        if part.stateful is not None or part.name in known:
            continue
        for old in gone:
            again = sorted(_topics(part) & _topics(old))
            if again and part.name.endswith("-dead-letter") == old.name.endswith("-dead-letter"):
                yield StateChange(
                    part.name,
                    REFUSED,
                    f"sub-topology '{part.name}' would process topic '{again[0]}' again, which '{old.name}' has "
                    "processed: a part without state is named after its first source; name the source "
                    f"'{old.name.removesuffix('-dead-letter')}' again, and put none before it in the alphabet",
                )
                break


def _sources(part: SubTopology) -> list[Stream | RepartitionSource]:
    return [node for node in part.nodes if isinstance(node, Stream | RepartitionSource)]


def _topics(part: SubTopology) -> set[str]:
    found: set[str] = set()
    for source in _sources(part):
        found |= {source.topic} if isinstance(source, RepartitionSource) else {*source.topics}
    return found
