# SPDX-License-Identifier: Apache-2.0
"""Whether a version of an app can go on from where an earlier one stands. Pure: the input is the plan and the facts
known about the earlier version. The operator has its plan, a start has its record on the metadata topic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache

from streamapp.inputs import Input, Numbering, numbered
from streamapp.internal_topics import is_repartition_topic
from streamapp.nodes import DeadLetter, Node
from streamapp.plan import Plan, Store, SubTopology

NO_EPOCH = -1
WAYS_OUT = (
    "undo the change, or give the node another `store`, which begins empty; or, to process everything again, choose "
    "another applicationId"
)


@dataclass(frozen=True)
class Shape:
    """The meaning of a store's records."""

    fingerprint: str
    partitions: int
    node: str = ""
    """The node in words; empty where that is not known."""
    since: int = NO_EPOCH
    """The last epoch that was planned when the store came to a sub-topology that had run; NO_EPOCH for one that was
    there from its first epoch on."""
    until: int | None = None
    """The last epoch that was committed with it, where later versions are without it."""


@dataclass(frozen=True)
class Predecessor:
    """A sub-topology of an earlier version."""

    stateful: bool
    topics: frozenset[str]
    """The topics that it has read. Empty where none are known."""
    inputs: Mapping[int, Input] = field(default_factory=dict)
    """Sources that it has a position in, and those of earlier versions, by number. Empty where none are known."""
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    """The shapes of its stores, by name, as far as they are known."""


@dataclass(frozen=True)
class Refusal:
    """Why a part of a plan cannot go on from where it stands."""

    name: str
    """The name of the sub-topology, which is that of its first store, if it has one."""
    node: str | None
    """The store's node."""
    words: str


def predecessors_in(plan: Plan, words: Mapping[str, str]) -> dict[str, Predecessor]:
    """The plan's own sub-topologies, as predecessors of the next plan's. `words` describes its stores' nodes, by the
    store's name."""
    shapes = shapes_of(plan, words)
    return {
        part.name: Predecessor(
            bool(part.stateful),
            _topics(part),
            {number: Input.of(source) for number, source in enumerate(sources_of(part))},
            shapes.get(part.name, {}),
        )
        for part in plan.subtopologies
    }


def refusals(plan: Plan, known: Mapping[str, Predecessor], words: Mapping[str, str]) -> Iterator[Refusal]:
    """The parts of the plan that cannot go on from their predecessors, each with the reason.

    Args:
        plan: the plan to be run.
        known: the predecessors, by the name of the sub-topology.
        words: descriptions of the stores' nodes as they are now, by the store's name.
    """
    for part in plan.subtopologies:
        stores = [store for store in plan.stores if store.subtopology == part.name]
        before = known.get(part.name)
        problem: str | None
        problem, node = next(
            ((reason, store.node) for store in stores if (reason := _of_store(store, part, known, words))), ("", None)
        )
        if not problem and before is not None:
            problem, node = _misplaced(part, before, plan.application_id), stores[0].node if stores else None
        elif not problem and not stores:
            problem = _repeats(part, plan, known)
        if problem:
            yield Refusal(part.name, node, problem)


def _of_store(store: Store, part: SubTopology, known: Mapping[str, Predecessor], words: Mapping[str, str]) -> str:
    """Why the app cannot go on with the store; empty when it can."""
    before = known.get(part.name)
    elsewhere = next((name for name, old in known.items() if store.name in old.shapes), store.subtopology)
    if elsewhere != store.subtopology:
        return (
            f"store '{store.name}' (node '{store.node}') shares its task with other nodes than before: it was of "
            f"sub-topology '{elsewhere}' and would be of '{store.subtopology}', which has another position; {WAYS_OUT}"
        )
    if before is None or not before.shapes:
        return ""
    if store.name in before.shapes:
        return _misread(store, before.shapes[store.name], words[store.name])
    if _misses_nothing(part, store, before):
        return ""
    others = ", ".join(name for name, shape in before.shapes.items() if shape.until is None)
    return (
        f"store '{store.name}' (node '{store.node}') is new, and would share its task with {others}, whose records "
        "have been processed: it would miss them; choose another applicationId, which processes everything again"
    )


def _misses_nothing(part: SubTopology, store: Store, before: Predecessor) -> bool:
    """Whether all records of the store's node come from other nodes of its task, or from topics that the task has not
    read. Such a store may begin empty where its task has run: it takes the others' output from now on."""
    nodes = {node.name: node for node in part.nodes}
    new = inputs_of(part, before.inputs).new if before.inputs else frozenset()

    @cache
    def fed(name: str) -> bool:
        node = nodes[name]
        if node.source:
            return name in new
        return all(nodes[before].keyed or fed(before) for before in node.inputs)

    return all(fed(node.name) for node in part.nodes if store.name in node.stores)


def _misread(store: Store, shape: Shape, words: str) -> str:
    """Why the store's state would be misread; empty when it would not."""
    if shape.partitions != store.partitions:
        return (
            f"store '{store.name}' has {shape.partitions} partitions and would have {store.partitions}: "
            "spec.maxParallelism is fixed for the store's life; set it back"
        )
    if shape.fingerprint != store.fingerprint:
        change = ""
        if shape.node:
            same = shape.node == words
            change = (
                f": the nodes before '{store.node}' have changed" if same else f": `{shape.node}` becomes `{words}`"
            )
        return (
            f"store '{store.name}' (node '{store.node}', changelog {store.changelog_topic}) holds state that would "
            f"mean something else{change}; {WAYS_OUT}"
        )
    return ""


def _misplaced(part: SubTopology, before: Predecessor, application_id: str) -> str:
    """Why the part's positions would be of no use; empty when they are of use. When records come by an internal topic
    that came directly before, or the other way round, they would be processed again, or never."""
    if not before.inputs:
        return ""
    sources = inputs_of(part, before.inputs)
    if sources.back:
        name, ended = next(iter(sources.back.items()))
        what = f"topic '{min(ended.topics)}'" if ended.topics else f"pattern '{ended.pattern}'"
        renamed = "give the node another name, under which it reads its topics from startFrom on; or "
        return (
            f"{called(part)}: {what} of source '{name}' was read by an earlier version, up to epoch {ended.until}, and "
            "not by the version before, so it has no position any more; "
            f"{renamed if part.stateful else ''}choose another applicationId, which processes everything again"
        )
    gone = frozenset(topic for each in sources.gone.values() for topic in each.topics)
    came = frozenset(t for each in sources_of(part) if each.name in sources.new for t in Input.of(each).topics)
    was, will = (frozenset(t for t in some if is_repartition_topic(application_id, t)) for some in (gone, came))
    if gone and came and was != will:
        return (
            f"{called(part)} has its position in {_way(was)}, and would read {_way(will)}: records would be processed "
            f"again, or never; {WAYS_OUT}"
        )
    return ""


def _repeats(part: SubTopology, plan: Plan, known: Mapping[str, Predecessor]) -> str:
    """Why a part without state would process records again; empty when it would not. Such a part keeps its position
    under its name; with another name it would begin anew."""
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
    """The name by which people know a part."""
    return f"store '{part.name}'" if part.stateful else f"sub-topology '{part.name}'"


def shapes_of(plan: Plan, words: Mapping[str, str]) -> dict[str, dict[str, Shape]]:
    """The shapes of the plan's stores by name, by sub-topology. `words` describes their nodes, by the store's name."""
    found: dict[str, dict[str, Shape]] = {}
    for store in plan.stores:
        shape = Shape(store.fingerprint, store.partitions, words.get(store.name, ""))
        found.setdefault(store.subtopology, {})[store.name] = shape
    return found


def _way(topics: frozenset[str]) -> str:
    return f"internal topic '{min(topics)}'" if topics else "its sources"


def _is_dead_letter(part: SubTopology) -> bool:
    return any(isinstance(node, DeadLetter) for node in part.nodes)


def inputs_of(part: SubTopology, before: Mapping[int, Input]) -> Numbering:
    """The numbers of its sources, after those before it were found among them. Without state it has a position for each
    topic, too."""
    return numbered(sources_of(part), before, by_topic=not part.stateful)


def sources_of(part: SubTopology) -> list[Node]:
    """The nodes by which it reads, each a source of its own in the query."""
    return [node for node in part.nodes if node.source]


def _topics(part: SubTopology) -> frozenset[str]:
    return frozenset(topic for source in sources_of(part) for topic in source.topics_read)
