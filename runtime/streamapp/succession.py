# SPDX-License-Identifier: Apache-2.0
"""Whether a version of an app can go on from where an earlier one stands. Pure, of the plan and of what is known of the
earlier version: the operator has its plan, a start has what it has left on the metadata topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from streamapp.internal_topics import is_repartition_topic
from streamapp.nodes import DeadLetter, Node
from streamapp.plan import Plan, Store, SubTopology

WAYS_OUT = (
    "undo the change, or give the node another `store`, which begins empty; or, to process everything again, choose "
    "another applicationId"
)


@dataclass(frozen=True)
class Shape:
    """What the records of a store mean."""

    fingerprint: str
    partitions: int
    node: str = ""
    """The node in words; empty where that is not known."""


@dataclass(frozen=True)
class Predecessor:
    """A sub-topology of an earlier version."""

    stateful: bool
    topics: frozenset[str]
    """That it has read. Empty where none are known."""
    inputs: int = 0
    """Sources that it has a position in; 0 where that is not known."""
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    """Of its stores, by name, as far as they are known."""


@dataclass(frozen=True)
class Refusal:
    """Why a part of a plan cannot go on from where it stands."""

    name: str
    """The sub-topology, which is called as its first store is, if it has one."""
    node: str | None
    """The store's."""
    words: str


def predecessors_in(plan: Plan, words: Mapping[str, str]) -> dict[str, Predecessor]:
    """The plan's own sub-topologies, as predecessors of the next plan's; with what its stores' nodes do, by the store's
    name."""
    shapes = shapes_of(plan, words)
    return {
        part.name: Predecessor(
            bool(part.stateful),
            _topics(part),
            len(_sources(part)),
            shapes.get(part.name, {}),
        )
        for part in plan.subtopologies
    }


def refusals(plan: Plan, known: Mapping[str, Predecessor], words: Mapping[str, str]) -> Iterator[Refusal]:
    """What of the plan cannot go on from its predecessors.

    Args:
        plan: to be run.
        known: by the name of the sub-topology.
        words: what a store's node does now, by the store's name.
    """
    for part in plan.subtopologies:
        stores = [store for store in plan.stores if store.subtopology == part.name]
        before = known.get(part.name)
        problem: str | None
        problem, node = next(
            ((said, store.node) for store in stores if (said := _of_store(store, before, known, words))), ("", None)
        )
        if not problem and before is not None:
            problem, node = _misplaced(part, plan, before), stores[0].node if stores else None
        elif not problem and not stores:
            problem = _repeats(part, plan, known)
        if problem:
            yield Refusal(part.name, node, problem)


def _of_store(
    store: Store, before: Predecessor | None, known: Mapping[str, Predecessor], words: Mapping[str, str]
) -> str:
    """Why the store cannot be gone on with; empty when it can."""
    elsewhere = next((name for name, old in known.items() if store.name in old.shapes), store.subtopology)
    if elsewhere != store.subtopology:
        return (
            f"store '{store.name}' (node '{store.node}') shares its task with other nodes than before: it was of "
            f"sub-topology '{elsewhere}' and would be of '{store.subtopology}', which has another position; {WAYS_OUT}"
        )
    if before is None or not before.shapes:
        return ""
    if store.name not in before.shapes:
        return (
            f"store '{store.name}' (node '{store.node}') is new, and would share its task with "
            f"{', '.join(before.shapes)}, whose records have been processed: it would miss them; choose another "
            "applicationId, which processes everything again"
        )
    return _misread(store, before.shapes[store.name], words[store.name])


def _misread(store: Store, shape: Shape, words: str) -> str:
    """Why what the store holds would be misread; empty when it would not."""
    if shape.partitions != store.partitions:
        return (
            f"store '{store.name}' has {shape.partitions} partitions and would have {store.partitions}: "
            "spec.maxParallelism is fixed for the store's life; set it back"
        )
    if shape.fingerprint != store.fingerprint:
        change = ""
        if shape.node:
            same = shape.node == words
            change = ": what comes before the node has changed" if same else f": `{shape.node}` becomes `{words}`"
        return (
            f"store '{store.name}' (node '{store.node}', changelog {store.changelog_topic}) holds state that would "
            f"mean something else{change}; {WAYS_OUT}"
        )
    return ""


def _misplaced(part: SubTopology, plan: Plan, before: Predecessor) -> str:
    """Why the part's positions would be good for nothing; empty when they are not. When records come by an internal
    topic that came directly before, or the other way round, they would be processed again, or never."""
    if before.topics:
        was = frozenset(topic for topic in before.topics if is_repartition_topic(plan.application_id, topic))
        will = part.reads_internally
        if was != will:
            return (
                f"{called(part)} has its position in {_way(was - will)}, and would read {_way(will - was)}: records "
                f"would be processed again, or never; {WAYS_OUT}"
            )
    if before.inputs and before.inputs != (has := len(_sources(part))):
        inputs = "1 input" if before.inputs == 1 else f"{before.inputs} inputs"
        return f"{called(part)} has a position in {inputs} and would have one in {has}; {WAYS_OUT}"
    return ""


def _repeats(part: SubTopology, plan: Plan, known: Mapping[str, Predecessor]) -> str:
    """Why a part without state would do again what has been done; empty when it would not. Such a part keeps its
    position under its name; with another name it would begin anew."""
    names = {each.name for each in plan.subtopologies}
    for name, old in sorted(known.items()):
        if old.stateful or name in names or _is_dead_letter(part) != name.endswith("-dead-letter"):
            continue
        if again := sorted(topic for topic in old.topics if part.reads(topic)):
            return (
                f"sub-topology '{part.name}' would process topic '{again[0]}' from startFrom on, although '{name}' of "
                "an earlier version has processed it already: a sub-topology without state is named after its first "
                f"source. Name the source '{name.removesuffix('-dead-letter')}' again and put none before it in the "
                "alphabet; or, to process everything again, choose another applicationId"
            )
    return ""


def called(part: SubTopology) -> str:
    """What people know a part by."""
    return f"store '{part.name}'" if part.stateful else f"sub-topology '{part.name}'"


def shapes_of(plan: Plan, words: Mapping[str, str]) -> dict[str, dict[str, Shape]]:
    """The shapes of the plan's stores by name, by sub-topology; with what their nodes do, by the store's name."""
    found: dict[str, dict[str, Shape]] = {}
    for store in plan.stores:
        shape = Shape(store.fingerprint, store.partitions, words.get(store.name, ""))
        found.setdefault(store.subtopology, {})[store.name] = shape
    return found


def _way(topics: frozenset[str]) -> str:
    return f"internal topic '{min(topics)}'" if topics else "its sources"


def _is_dead_letter(part: SubTopology) -> bool:
    return any(isinstance(node, DeadLetter) for node in part.nodes)


def _sources(part: SubTopology) -> list[Node]:
    return [node for node in part.nodes if node.source]


def _topics(part: SubTopology) -> frozenset[str]:
    return frozenset(topic for source in _sources(part) for topic in source.topics_read)
