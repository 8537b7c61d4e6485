# SPDX-License-Identifier: Apache-2.0
"""The changes of an app's state and positions when its plan changes. Pure, from the two plans."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from streamapp.describe.words import of_stores
from streamapp.operations import Table
from streamapp.plan import Plan, Store
from streamapp.succession import Predecessor, called, inputs_of, predecessors_in, refusals, sources_of

KEPT, NEW, UNUSED, REFUSED = "Kept", "New", "Unused", "Refused"


@dataclass(frozen=True)
class StateChange:
    """The change of a store, or of the position of a part without state."""

    name: str
    """The name of the store, of the sub-topology, or of the source's node."""
    outcome: str
    """KEPT, NEW, UNUSED, or REFUSED: the change cannot be made."""
    words: str
    node: str | None = None
    """The node of the store."""


def state_changes(before: Plan, after: Plan) -> Iterator[StateChange]:
    """One change for each store of either plan, one for each position that would be lost, and one for each source that
    comes to an earlier sub-topology or leaves it."""
    was, will = {store.name: store for store in before.stores}, {store.name: store for store in after.stores}
    known = predecessors_in(before, of_stores(before))
    refused = {refusal.name: refusal for refusal in refusals(after, known, of_stores(after))}
    reported: set[str] = set()
    for name, store in was.items():
        if name not in will:
            words = f"store '{name}' is not used any more; its changelog {store.changelog_topic} stays"
            if feeders := _going_on(before, store, after):
                words += f". It cannot come back when '{feeders[0]}' has gone on without it"
            yield StateChange(name, UNUSED, words, store.node)
        else:
            # A refusal is for all stores of a sub-topology, as they share a task.
            refusal = refused.get(will[name].subtopology)
            reported.add(will[name].subtopology)
            words = refusal.words if refusal else f"store '{name}' is kept"
            yield StateChange(name, REFUSED if refusal else KEPT, words, will[name].node)
    for name, store in will.items():
        if name in was:
            continue
        reported.add(store.subtopology)
        if refusal := refused.get(store.subtopology):
            yield StateChange(name, REFUSED, refusal.words, store.node)
        else:
            sources = [source.name for source in sources_of(after.subtopology(store.subtopology))]
            feeders = [] if store.node in sources else _going_on(after, store, before)
            then = (
                f"with the records of '{feeders[0]}' from now on"
                if feeders
                else "and reads its input from startFrom on"
            )
            yield StateChange(name, NEW, f"store '{name}' is new and begins empty, {then}", store.node)
    yield from _sources(after, known, refused.keys(), {*was, *will})
    for refusal in (each for name, each in refused.items() if name not in reported):
        yield StateChange(refusal.name, REFUSED, refusal.words, refusal.node)


def _sources(
    after: Plan, known: Mapping[str, Predecessor], refused: Collection[str], stores: Collection[str]
) -> Iterator[StateChange]:
    """The changes of sources in sub-topologies that are in both plans; the change of a table's store covers the
    table."""
    for part in after.subtopologies:
        if part.name not in known or part.name in refused:
            continue
        found = inputs_of(part, known[part.name].inputs)
        for source in sources_of(part):
            if source.name in found.new and source.name not in stores:
                start = "the start" if isinstance(source, Table) else "startFrom"
                others = any(gone.node == source.name for gone in found.gone.values())
                what = "reads other topics than before, from" if others else "is new: its topics are read from"
                words = f"source '{source.name}' of {called(part)} {what} {start} on"
                yield StateChange(source.name, NEW, words, source.name)
        for gone in found.gone.values():
            if gone.node not in {*stores, *found.new}:
                what = ", ".join(sorted(gone.topics)) or str(gone.pattern)
                words = f"source '{gone.node}' of {called(part)} does not read {what} any more"
                yield StateChange(gone.node, UNUSED, words, gone.node)


def would_miss(before: Plan, after: Plan) -> str:
    """Why `after` could not follow on `before`, if an app of it has run earlier: a store that comes back, while a
    sub-topology that feeds it by an internal topic has gone on without it. Empty when there is none."""
    known = {store.name for store in before.stores}
    for store in after.stores:
        if store.name not in known and (feeders := _going_on(after, store, before)):
            return f"store '{store.name}' would miss the records that '{feeders[0]}' has processed without it"
    return ""


def _going_on(plan: Plan, store: Store, other: Plan) -> list[str]:
    """The sub-topologies that feed the store, in its task or by internal topics of the plan, and are in the other plan
    too: each has one position in both."""
    there = {part.name for part in other.subtopologies}
    if store.subtopology in there:
        return [store.subtopology]
    read = plan.subtopology(store.subtopology).reads_internally
    return sorted(part.name for part in plan.subtopologies if part.writes_internally & read and part.name in there)
